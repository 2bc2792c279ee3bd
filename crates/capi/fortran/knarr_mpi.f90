! The ranks of a program with MPI. Compile this file with the program, and knarr_mpi.c with its mpicc.
module knarr_mpi
   use, intrinsic :: iso_c_binding
   use knarr_checkpoints, only: knarr_comm
   implicit none
   private
   public :: knarr_ranks

   interface
      function c_mpi_table(comm, table) bind(c, name="knarr_mpi_table_f") result(code)
         import :: c_int32_t, knarr_comm
         integer(c_int32_t), value :: comm
         type(knarr_comm), intent(out) :: table
         integer(c_int32_t) :: code
      end function c_mpi_table
   end interface

contains

   ! The ranks of a communicator, which stays the program's: MPI_COMM_WORLD%mpi_val of mpi_f08, MPI_COMM_WORLD of mpi and
   ! mpif.h. Collective. An error of MPI stops the program.
   function knarr_ranks(comm) result(ranks)
      integer, intent(in) :: comm
      type(knarr_comm) :: ranks
      if (c_mpi_table(int(comm, c_int32_t), ranks) /= 0) error stop 'knarr_ranks: MPI does not duplicate the communicator'
   end function knarr_ranks
end module knarr_mpi
