! The history of a plane, one band of columns on each rank, as one file: history OUT.nc (or OUT.zarr, OUT.h5). Its second
! dimension is called y, so that the file is that of the example in C. Without -DUSE_MPI it is one process.
program history
   use knarr_outputs
#ifdef USE_MPI
   use mpi_f08
   use knarr_mpi
#endif
   use, intrinsic :: iso_fortran_env, only: real32, real64
   implicit none
   integer, parameter :: steps = 5, rows = 80, columns = 120
   type(knarr_output) :: output
   real(real32), allocatable :: t(:, :, :)
   character(256) :: path
   integer :: rank, ranks, first, last, step, i, j
   rank = 0
   ranks = 1
   call get_command_argument(1, path)
#ifdef USE_MPI
   call MPI_Init_thread(MPI_THREAD_FUNNELED, i)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks)
   call knarr_create_output(output, path, 'goal=ratio', knarr_ranks(MPI_COMM_WORLD%mpi_val))
#else
   call knarr_create_output(output, path, 'goal=ratio')
#endif
   first = columns*rank/ranks + 1
   last = columns*(rank + 1)/ranks
   allocate (t(rows, first:last, 1))

   ! All ranks define the same things.
   call knarr_def_dim(output, 'time', knarr_unlimited)
   call knarr_def_dim(output, 'y', columns)
   call knarr_def_dim(output, 'x', rows)
   call knarr_def_var(output, 'time', knarr_float64, ['time'])
   call knarr_def_var(output, 'T', knarr_float32, ['x   ', 'y   ', 'time'], 'max_abs_error=0.001')
   call knarr_put_att(output, 'time', 'units', 'hours since 2000-01-01')
   call knarr_put_att(output, 'T', 'units', 'K')
   call knarr_put_att(output, 'T', '_FillValue', -999.0_real32)
   call knarr_put_att(output, '', 'title', 'a plane')

   do step = 1, steps
      do concurrent(i=1:rows, j=first:last)
         t(i, j, 1) = real(290 + 10*sin(0.05d0*(j - 1) + (step - 1))*cos(0.1d0*(i - 1)), real32)
      end do
      call knarr_put_var(output, 'T', t, [1, first, step]) ! a copy
      if (rank == 0) call knarr_put_var(output, 'time', [6.0_real64*(step - 1)], [step])
      call knarr_end_step(output)
   end do
   call knarr_commit_output(output) ! from here on the file is made, and the program may compute
   call knarr_close_output(output)  ! it is complete and on the disk
#ifdef USE_MPI
   call MPI_Finalize()
#endif
end program history
