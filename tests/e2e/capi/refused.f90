! A step of which an array was refused is not committed, also if the program goes on.
program refused
   use knarr
   use knarr_checkpoints
   use, intrinsic :: iso_c_binding
   implicit none
   type(knarr_checkpoint) :: checkpoint
   integer(c_int) :: status
   real(c_double) :: array(3, 4)
   array = 1
   call knarr_open_checkpoints(checkpoint, 'sets')
   call knarr_begin(checkpoint, 1_c_int64_t)
   call knarr_put(checkpoint, 'u', array)
   call knarr_put(checkpoint, 'T', array, start=[1, 1], status=status)
   if (status /= knarr_usage) error stop 'a start without a shape'
   call knarr_commit(checkpoint, status=status)
   if (status /= knarr_usage) error stop 'committed without T'
   call knarr_begin(checkpoint, 1_c_int64_t)
   call knarr_put(checkpoint, 'u', array)
   call knarr_put(checkpoint, 'T', array, [3], status=status)
   if (status /= knarr_usage) error stop 'a shape of other dimensions'
   call knarr_commit(checkpoint, status=status)
   if (status /= knarr_usage) error stop 'committed without T'
   call knarr_close_checkpoints(checkpoint)
   print '(a)', 'refused'
end program refused
