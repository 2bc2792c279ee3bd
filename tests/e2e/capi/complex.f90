! Complex numbers and logicals come back, whole and in parts.
program complexes
   use knarr
   use knarr_checkpoints
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: real32, real64
   implicit none
   type(knarr_checkpoint) :: checkpoint
   type(knarr_restart) :: restart
   complex(real64) :: z(3, 4), back(3, 4), part(3, 2), scalar
   complex(real32) :: c(5), d(5)
   logical :: mask(6), again(6)
   integer :: i
   z = reshape([(cmplx(i, -i*0.5d0, real64), i=1, 12)], [3, 4])
   c = [(cmplx(i*i, 1, real32), i=1, 5)]
   mask = [(mod(i, 3) == 0, i=1, 6)]
   call knarr_open_checkpoints(checkpoint, 'sets')
   call knarr_begin(checkpoint, 1_c_int64_t)
   call knarr_put(checkpoint, 'own', z)
   call knarr_put(checkpoint, 'all', z(:, :2), [3, 4], [1, 1])
   call knarr_put(checkpoint, 'all', z(:, 3:), [3, 4], [1, 3])
   call knarr_put(checkpoint, 'c', c)
   call knarr_put(checkpoint, 'mask', mask)
   call knarr_put(checkpoint, 'scalar', z(2, 2))
   call knarr_commit(checkpoint)
   call knarr_wait(checkpoint)
   call knarr_open_restart(checkpoint, restart)
   back = 0
   call knarr_read_array(restart, 'own', back)
   if (any(back /= z)) error stop 'own'
   call knarr_read_array(restart, 'all', part, [1, 2])
   if (any(part /= z(:, 2:3))) error stop 'a part'
   call knarr_read_array(restart, 'c', d)
   if (any(c /= d)) error stop 'single precision'
   call knarr_read_array(restart, 'mask', again)
   if (any(mask .neqv. again)) error stop 'logicals'
   call knarr_read_array(restart, 'scalar', scalar)
   if (scalar /= z(2, 2)) error stop 'a scalar'
   call knarr_close_restart(restart)
   call knarr_close_checkpoints(checkpoint)
   print '(a)', 'all come back'
end program complexes
