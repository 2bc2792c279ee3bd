! Heat in a plane, one band of columns on each rank, with a checkpoint every 10 steps. Start it again, on any number of
! ranks, and it goes on from the last one: heat DIRECTORY STEPS. Without -DUSE_MPI it is one process.
program heat
   use knarr_checkpoints
#ifdef USE_MPI
   use mpi_f08
   use knarr_mpi
#endif
   use, intrinsic :: iso_fortran_env, only: int64, real64
   implicit none
   integer, parameter :: rows = 80, columns = 120
   type(knarr_checkpoint) :: checkpoint
   type(knarr_restart) :: restart
   real(real64), allocatable :: t(:, :)
   character(256) :: directory, argument
   integer(int64) :: step, steps, before
   integer :: rank, ranks, first, last, i, j
   rank = 0
   ranks = 1
   call get_command_argument(1, directory)
   call get_command_argument(2, argument)
   read (argument, *) steps
#ifdef USE_MPI
   call MPI_Init_thread(MPI_THREAD_FUNNELED, i)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks)
   call knarr_open_checkpoints(checkpoint, directory, 'keep=2', knarr_ranks(MPI_COMM_WORLD%mpi_val))
#else
   call knarr_open_checkpoints(checkpoint, directory, 'keep=2')
#endif
   first = columns*rank/ranks + 1
   last = columns*(rank + 1)/ranks
   allocate (t(rows, first - 1:last + 1), source=0d0) ! with a column of each neighbour

   step = 0
   call knarr_open_restart(checkpoint, restart)
   if (knarr_has_checkpoint(restart)) then
      call knarr_about(restart, step, before)
      call knarr_read_array(restart, 'T', t(:, first:last), start=[1, first])
      call knarr_close_restart(restart)
      print '(3(a, i0), a)', 'rank ', rank, ': from step ', step, ' of ', before, ' ranks'
   else
      do concurrent(i=1:rows, j=first:last)
         t(i, j) = sin(0.05d0*(j - 1))*cos(0.1d0*(i - 1))
      end do
   end if
   do while (step < steps)
      call exchange()
      t(2:rows - 1, first:last) = t(2:rows - 1, first:last) + 0.2d0*(t(2:rows - 1, first - 1:last - 1) &
         + t(2:rows - 1, first + 1:last + 1) + t(1:rows - 2, first:last) + t(3:rows, first:last) &
         - 4*t(2:rows - 1, first:last))
      step = step + 1
      if (modulo(step, 10_int64) == 0) then
         call knarr_begin(checkpoint, step)
         call knarr_put(checkpoint, 'T', t(:, first:last), [rows, columns], [1, first])
         call knarr_commit(checkpoint) ! packed while the next steps are computed
      end if
   end do
   call knarr_close_checkpoints(checkpoint)
#ifdef USE_MPI
   call MPI_Finalize()
#endif

contains

   subroutine exchange()
#ifdef USE_MPI
      integer :: left, right
      left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
      right = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
#endif
      t(:, first - 1) = 0
      t(:, last + 1) = 0
#ifdef USE_MPI
      call MPI_Sendrecv(t(:, first), rows, MPI_DOUBLE_PRECISION, left, 0, t(:, last + 1), rows, MPI_DOUBLE_PRECISION, &
         right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      call MPI_Sendrecv(t(:, last), rows, MPI_DOUBLE_PRECISION, right, 1, t(:, first - 1), rows, MPI_DOUBLE_PRECISION, &
         left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
#endif
   end subroutine exchange
end program heat
