! As "letkf" of dtf_coupled.c, in Fortran, with the values of Hist.D01.nc read in transfer by requests only.
! usage: dtf_reader INI SESSIONS
program dtf_reader
  use mpi
  use pnetcdf
  implicit none
  integer, parameter :: rows = 12, columns = 5
  integer :: ierr, rank, ranks, session, sessions
  character(len=256) :: ini, text
  external :: dtf_init, dtf_transfer, dtf_finalize, dtf_transfer_all_files, dtf_time_start, dtf_time_end

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, ini)
  call get_command_argument(2, text)
  read (text, *) sessions
  call dtf_init(trim(ini)//char(0), 'letkf'//char(0), ierr)
  call ok(ierr, 'dtf_init')
  do session = 0, sessions - 1
    call dtf_time_start()
    call get()
    call put()
    call dtf_time_end()
  end do
  call dtf_finalize(ierr)
  call ok(ierr, 'dtf_finalize')
  call MPI_Finalize(ierr)

contains

  subroutine ok(code, what)
    integer, intent(in) :: code
    character(len=*), intent(in) :: what
    if (code == 0) return
    print *, what, code
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine ok

  real function expected(kind, row, column)
    integer, intent(in) :: kind, row, column
    expected = real(session*10000 + kind*1000 + row*10 + column)
  end function expected

  subroutine get()
    integer :: id, field, series, request, row, column, i, unit
    integer(kind=MPI_OFFSET_KIND) :: start(3), length(3)
    character(len=32) :: seen
    real, allocatable :: one(:, :), two(:, :, :)
    start = [1 + columns*rank/ranks, 1, 1]
    length = [columns*(rank + 1)/ranks - columns*rank/ranks, rows, 2]
    allocate (one(length(1), rows), two(length(1), rows, 2))
    call ok(nf90mpi_open(MPI_COMM_WORLD, 'Hist.D01.nc', NF90_NOWRITE, MPI_INFO_NULL, id), 'open')
    call ok(nf90mpi_inq_varid(id, 'field', field), 'field')
    call ok(nf90mpi_inq_varid(id, 'series', series), 'series')
    call ok(nf90mpi_iget_var(id, field, one, request, start(1:2), length(1:2)), 'iget field')
    call ok(nf90mpi_iget_var(id, series, two, request, start, length), 'iget series')
    call dtf_transfer('Hist.D01.nc'//char(0), id, ierr)
    call ok(ierr, 'dtf_transfer')
    do row = 1, rows
      do i = 1, int(length(1))
        column = int(start(1)) + i - 2
        if (one(i, row) /= expected(1, row - 1, column)) call ok(1, 'a value of field is wrong')
        if (two(i, row, 1) /= expected(2, row - 1, column)) call ok(1, 'a value of series is wrong')
        if (two(i, row, 2) /= expected(3, row - 1, column)) call ok(1, 'a value of series is wrong')
      end do
    end do
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    if (rank == 0) then
      write (seen, '(a,i0)') 'seen.', session
      open (newunit=unit, file=trim(seen))
      close (unit)
    end if
    call ok(nf90mpi_close(id), 'close')
  end subroutine get

  subroutine put()
    integer :: id, dims(3), field, series, row, column, record
    integer(kind=MPI_OFFSET_KIND) :: start(3), length(3)
    real, allocatable :: values(:, :)
    start = [1, 1 + rows*rank/ranks, 1]
    length = [columns, rows*(rank + 1)/ranks - rows*rank/ranks, 1]
    allocate (values(columns, length(2)))
    call ok(nf90mpi_create(MPI_COMM_WORLD, 'Anal.nc', NF90_CLOBBER, MPI_INFO_NULL, id), 'create')
    call ok(nf90mpi_def_dim(id, 'x', int(columns, MPI_OFFSET_KIND), dims(1)), 'x')
    call ok(nf90mpi_def_dim(id, 'y', int(rows, MPI_OFFSET_KIND), dims(2)), 'y')
    call ok(nf90mpi_def_dim(id, 'time', NF90MPI_UNLIMITED, dims(3)), 'time')
    call ok(nf90mpi_def_var(id, 'field', NF90_FLOAT, dims(1:2), field), 'field')
    call ok(nf90mpi_def_var(id, 'series', NF90_FLOAT, dims, series), 'series')
    call ok(nf90mpi_enddef(id), 'enddef')
    do record = 0, 2
      do row = 1, int(length(2))
        do column = 1, columns
          values(column, row) = expected(record + 1, int(start(2)) + row - 2, column - 1)
        end do
      end do
      start(3) = record
      if (record == 0) call ok(nf90mpi_put_var_all(id, field, values, start(1:2), length(1:2)), 'put field')
      if (record > 0) call ok(nf90mpi_put_var_all(id, series, values, start, length), 'put series')
    end do
    call dtf_transfer_all_files()
    call ok(nf90mpi_close(id), 'close')
  end subroutine put
end program dtf_reader
