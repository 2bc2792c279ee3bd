! Compresses a temperature field under a bound, says why, decompresses it and proves what was kept.
program field
   use knarr
   use, intrinsic :: iso_fortran_env, only: int8, real32
   implicit none
   integer, parameter :: columns = 180, rows = 90, levels = 6
   real(real32) :: t(columns, rows, levels), back(columns, rows, levels)
   integer(int8), allocatable :: frame(:)
   character(:), allocatable :: why
   type(knarr_context) :: context
   type(knarr_hints) :: hints, observed
   type(knarr_validation) :: found
   integer :: i, j, k

   do concurrent(i=1:columns, j=1:rows, k=1:levels)
      t(i, j, k) = 290 - 7*k + 15*sin(j*0.035) + 2*cos(i*0.07) + 0.3*sin(i*j*0.01)
   end do
   t(20, 10, 1) = 1e20 ! missing

   ! At most 0.01 K off; 1e20 is missing; from 300 K on every bit counts; the smallest frame.
   hints = knarr_new_hints('goal=ratio')
   hints%max_abs_error = 0.01d0
   hints%fill_value = 1d20
   hints%exact_from = 300

   call knarr_create(context, hints)
   call knarr_compress(context, t, frame)
   call knarr_explain(context, t, why)
   print '(2a)', 'chain: ', why(:index(why, new_line('a')) - 1)
   print '(i0, a, i0)', size(frame), ' bytes for ', storage_size(t)/8*size(t)

   call knarr_decompress(context, frame, back)
   call knarr_validate(context, frame, t, observed, found)
   print '(a, es8.2, a, 3(i0, 1x))', 'largest error ', observed%max_abs_error, ' K at ', &
      knarr_subscripts(found%worst_abs, shape(t))
   if (found%holds /= 1) error stop 'a hint does not hold'
   if (any(abs(back - t) > 0.01)) error stop 'too far off'
   call knarr_free(context)
end program field
