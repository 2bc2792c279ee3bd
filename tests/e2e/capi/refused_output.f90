! A file of which an array was refused is not written, also if the program goes on.
program refused
   use knarr
   use knarr_outputs
   use, intrinsic :: iso_c_binding
   implicit none
   type(knarr_output) :: output
   integer(c_int) :: status
   character(200) :: message
   real(c_double) :: array(3, 4)
   logical :: done
   array = 1
   call knarr_create_output(output, 'a.nc')
   call knarr_def_dim(output, 'x', 3)
   call knarr_def_dim(output, 'y', 4)
   call knarr_def_var(output, 'T', knarr_float64, ['x', 'y'])
   call knarr_put_var(output, 'T', array, start=[1], status=status)
   if (status /= knarr_usage) error stop 'a start of other dimensions'
   call knarr_close_output(output, status=status)
   if (status /= knarr_usage) error stop 'written without T'
   call knarr_create_output(output, 'a.nc')
   call knarr_def_dim(output, 'x', 3)
   call knarr_def_dim(output, 'y', 4)
   call knarr_def_var(output, 'T', knarr_float64, ['y', 'x'])
   call knarr_put_var(output, 'T', array, status=status, message=message)
   if (status /= knarr_usage .or. index(message, 'dimension ''x''') == 0) error stop 'turned round'
   call knarr_close_output(output, status=status)
   if (status /= knarr_usage) error stop 'written without T'
   call knarr_create_output(output, 'a.nc', 'jobs=1')
   call knarr_def_dim(output, 'x', 3)
   call knarr_def_dim(output, 'y', 4)
   call knarr_def_var(output, 'T', knarr_float64, ['x', 'y'])
   call knarr_put_var(output, 'T', array)
   call knarr_commit_output(output)
   call knarr_wait_output(output)
   call knarr_test_output(output, done)
   if (.not. done .or. len(knarr_output_notes(output)) > 0) error stop 'not done'
   call knarr_close_output(output)
   print '(a)', 'refused'
end program refused
