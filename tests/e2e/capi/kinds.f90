! Every kind and several ranks come back through the Fortran module; order, unsigned integers, strides, errors.
program kinds
   use knarr
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
   implicit none
   type(knarr_context) :: context, lossy, none
   type(knarr_hints) :: hints, observed
   type(knarr_info) :: info
   type(knarr_validation) :: found
   integer(int8), allocatable :: frame(:)
   integer(c_int32_t), allocatable :: words(:)
   integer(c_int) :: status
   character(256) :: message
   character(:), allocatable :: text
   integer(int8) :: a1(100), b1(100)
   integer(int16) :: a2(7, 11), b2(7, 11)
   integer(int32) :: a3(3, 4, 5), b3(3, 4, 5), turned(5, 4, 3)
   integer(int64) :: a4(2, 3, 2, 3, 2), b4(2, 3, 2, 3, 2)
   real(real32) :: a5(40, 30), b5(40, 30), smaller(39, 30)
   real(real64) :: a6, b6, none6(0, 3), back6(0, 3)
   integer :: i

   call knarr_create(context)
   a1 = [(int(i, int8), i=1, 100)]
   a2 = reshape([(int(-300*i, int16), i=1, 77)], [7, 11])
   a3 = reshape([(i*i, i=1, 60)], [3, 4, 5])
   a4 = reshape([(huge(1_int64) - i, i=1, 72)], [2, 3, 2, 3, 2])
   a5 = reshape([(280 + sin(i*0.01), i=1, 1200)], [40, 30])
   a6 = 3.25d0

   call knarr_compress(context, a1, frame)
   call knarr_decompress(context, frame, b1)
   call knarr_compress(context, a2, frame)
   call knarr_decompress(context, frame, b2)
   call knarr_compress(context, a3, frame)
   call knarr_decompress(context, frame, b3)
   call check(all(a1 == b1) .and. all(a2 == b2) .and. all(a3 == b3), 'integers come back')

   ! The first dimension of Fortran is the last of C.
   call knarr_inspect(context, frame, info)
   call check(info%rank == 3 .and. all(info%shape(:3) == [5, 4, 3]) .and. info%dtype == knarr_int32, 'turned shape')
   call check(info%raw_size == 240 .and. info%lossy == 0 .and. len(knarr_text(info%chain)) > 0, 'rest of the info')
   call knarr_decompress(context, frame, turned, status, message)
   call check(status == knarr_usage .and. index(message, 'shape') > 0, 'a turned array is refused')

   call knarr_compress(context, a4, frame)
   call knarr_decompress(context, frame, b4)
   call check(all(a4 == b4), 'five dimensions')
   call knarr_compress(context, a6, frame)
   call knarr_decompress(context, frame, b6)
   call check(a6 == b6, 'a scalar')
   call knarr_compress(context, none6, frame)
   call knarr_decompress(context, frame, back6)
   call check(size(frame) > 0, 'no elements')

   ! Every second column: the compiler makes it contiguous and puts it back.
   call knarr_compress(context, a5(:, ::2), frame)
   b5 = 0
   call knarr_decompress(context, frame, b5(:, ::2))
   call check(all(b5(:, ::2) == a5(:, ::2)) .and. all(b5(:, 2::2) == 0), 'strides')

   ! Fortran has no unsigned integers: the frame may say that they are.
   call knarr_compress(context, a2, frame, dtype=knarr_uint16)
   call knarr_inspect(context, frame, info)
   call knarr_decompress(context, frame, b2)
   call check(info%dtype == knarr_uint16 .and. all(a2 == b2), 'unsigned integers')
   call knarr_compress(context, a2, frame, dtype=knarr_uint64, status=status, message=message)
   call check(status == knarr_usage .and. index(message, 'dtype') > 0, 'a type of another size is refused')

   hints = knarr_new_hints('significant_digits=4 goal=ratio')
   hints%max_abs_error = 0.01d0
   text = knarr_hints_text(hints)
   call check(index(text, 'max_abs_error=0.01 significant_digits=4') == 1, 'text of hints: '//text)
   call knarr_set_hints(hints, 'tolerance=1', status, message)
   call check(status == knarr_usage .and. index(message, 'tolerance') > 0, 'an unknown hint is refused')
   call knarr_filter_words(hints, words)
   call check(size(words) == 4, 'words of the filter')
   call knarr_create(lossy, hints)
   call knarr_compress(lossy, a5, frame)
   call knarr_decompress(lossy, frame, b5)
   call check(all(abs(a5 - b5) <= 0.01) .and. any(a5 /= b5), 'a bound')
   call knarr_validate(lossy, frame, a5, observed, found)
   call check(found%holds == 1 .and. abs(observed%max_abs_error - maxval(abs(a5 - b5))) < 1e-9, 'observed accuracy')
   associate (at => knarr_subscripts(found%worst_abs, shape(a5)))
      call check(abs(a5(at(1), at(2)) - b5(at(1), at(2))) == maxval(abs(a5 - b5)), 'the worst element')
   end associate
   call knarr_explain(lossy, a5, text)
   call check(index(text, ' for goal ''ratio''') > 0 .and. index(text, 'candidate') > 0, 'an explanation')

   call knarr_decompress(lossy, frame, smaller, status)
   call check(status == knarr_usage, 'another shape is refused')
   call knarr_decompress(lossy, frame, a2, status)
   call check(status == knarr_usage, 'another type is refused')
   frame(size(frame)) = ieor(frame(size(frame)), 1_int8)
   call knarr_decompress(lossy, frame, b5, status, message)
   call check(status == knarr_corrupt .and. index(message, 'checksum') > 0, 'damage is noticed')
   call knarr_compress(none, a5, frame, status=status, message=message)
   call check(status == knarr_usage .and. index(message, 'context') > 0, 'no context')
   hints%max_abs_error = -1
   call knarr_create(none, hints, status, message)
   call check(status == knarr_usage .and. index(message, 'max_abs_error is -1') > 0, 'nonsense is refused')
   call knarr_free(lossy)
   call knarr_free(lossy)
   call knarr_free(context)
   print '(2a)', 'all kinds come back with ', knarr_version()

contains

   subroutine check(holds, what)
      logical, intent(in) :: holds
      character(*), intent(in) :: what
      if (.not. holds) error stop what
   end subroutine check

end program kinds
