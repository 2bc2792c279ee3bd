! A model that writes its state with netCDF-Fortran, or takes one that another program has written: state write|read STEPS.
program state
  use netcdf
  implicit none
  integer, parameter :: nlon = 24, nlat = 16
  integer :: file, time, lat, lon, field, clock, step, steps, i, j, length
  real(8) :: temperature(nlon, nlat), hours
  character(16) :: what, text
  character(32) :: units
  call get_command_argument(1, what)
  call get_command_argument(2, text)
  read (text, *) steps
  if (what == 'write') then
    call ok(nf90_create('state.nc', nf90_netcdf4, file))
    call ok(nf90_def_dim(file, 'lon', nlon, lon))
    call ok(nf90_def_dim(file, 'lat', nlat, lat))
    call ok(nf90_def_dim(file, 'time', nf90_unlimited, time))
    call ok(nf90_def_var(file, 'T', nf90_double, [lon, lat, time], field))
    call ok(nf90_put_att(file, field, 'units', 'K'))
    call ok(nf90_def_var(file, 'time', nf90_double, [time], clock))
    call ok(nf90_enddef(file))
    do step = 1, steps
      call ok(nf90_put_var(file, field, values(step), start=[1, 1, step], count=[nlon, nlat, 1]))
      call ok(nf90_put_var(file, clock, 6.0d0*step, start=[step]))
    end do
  else
    call ok(nf90_open('state.nc', nf90_nowrite, file))
    call ok(nf90_inq_varid(file, 'T', field))
    call ok(nf90_inq_varid(file, 'time', clock))
    call ok(nf90_get_att(file, field, 'units', units))
    if (units(1:1) /= 'K') error stop 'other units'
    call ok(nf90_inq_dimid(file, 'time', time))
    call ok(nf90_inquire_dimension(file, time, len=length))
    if (length /= steps) error stop 'other steps'
    do step = 1, steps
      call ok(nf90_get_var(file, field, temperature, start=[1, 1, step], count=[nlon, nlat, 1]))
      call ok(nf90_get_var(file, clock, hours, start=[step]))
      if (any(temperature /= values(step)) .or. hours /= 6.0d0*step) error stop 'other values'
    end do
  end if
  call ok(nf90_close(file))
contains
  function values(step)
    integer, intent(in) :: step
    real(8) :: values(nlon, nlat)
    do j = 1, nlat
      do i = 1, nlon
        values(i, j) = 1000.0d0*step + 10.0d0*j + i/8.0d0
      end do
    end do
  end function
  subroutine ok(told)
    integer, intent(in) :: told
    if (told /= nf90_noerr) then
      print *, trim(nf90_strerror(told))
      error stop 'netCDF'
    end if
  end subroutine
end program
