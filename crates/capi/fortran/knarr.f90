! Knarr: compresses arrays in memory under a stated quality. Compile this file with the program and link with -lknarr.
!
! The functions of knarr.h for arrays of integer(int8..int64), real(real32) and real(real64) of any rank. Dimensions are
! turned round on the way: the first of Fortran, which varies fastest, is the last in the frame, so that C and Fortran
! agree on what is near in memory. Arrays that are not contiguous are copied by the compiler.
!
! Calls have an optional 'status' (knarr_ok or an error) and 'message', character of any length (256 is enough for most),
! empty if all is well. Without 'status' an error stops the program and prints its message.
module knarr
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
   use knarr_c
   use knarr_support
   implicit none
   private

   public :: knarr_ok, knarr_usage, knarr_config, knarr_not_found, knarr_exists, knarr_read, knarr_write, &
      knarr_corrupt, knarr_missing_filter, knarr_unsupported, knarr_quality, knarr_differs, knarr_interrupted, &
      knarr_internal, knarr_int8, knarr_int16, knarr_int32, knarr_int64, knarr_uint8, knarr_uint16, knarr_uint32, &
      knarr_uint64, knarr_float16, knarr_float32, knarr_float64, knarr_mb_per_second, knarr_times_network, &
      knarr_times_storage, knarr_max_rank, knarr_hdf5_filter, knarr_unset, knarr_latest, knarr_unlimited
   public :: knarr_hints, knarr_info, knarr_validation

   ! What was asked for, and the means to do it; threads may share one. Make it with knarr_create, end it with knarr_free.
   type, public :: knarr_context
      private
      type(c_ptr) :: handle = c_null_ptr
   end type knarr_context

   public :: knarr_version, knarr_new_hints, knarr_set_hints, knarr_hints_text, knarr_create, knarr_free, knarr_inspect
   public :: knarr_filter_words, knarr_subscripts, knarr_text
   public :: knarr_compress, knarr_decompress, knarr_validate, knarr_explain

   ! call knarr_compress(context, array, frame [, dtype, status, message])
   ! 'frame', integer(int8), allocatable, becomes the frame. 'dtype' says that integers are unsigned: knarr_uint8...
   interface knarr_compress
      !each number
      module procedure compress_{kind}
      !end each
   end interface knarr_compress

   ! call knarr_decompress(context, frame, array [, status, message])
   ! Type, rank and shape of 'array' must be those of the frame; signed integers take unsigned ones.
   interface knarr_decompress
      !each number
      module procedure decompress_{kind}
      !end each
   end interface knarr_decompress

   ! call knarr_validate(context, frame, original, observed, found [, dtype, status, message])
   ! 'observed' becomes the accuracy in the words of the hints, 'found' says whether they hold and where they do not.
   interface knarr_validate
      !each number
      module procedure validate_{kind}
      !end each
   end interface knarr_validate

   ! call knarr_explain(context, array, text [, dtype, status, message])
   ! 'text', character, allocatable, becomes the chain that the array would get, and why.
   interface knarr_explain
      !each number
      module procedure explain_{kind}
      !end each
   end interface knarr_explain

contains

   ! Version of the library.
   function knarr_version() result(text)
      character(:), allocatable :: text
      text = from_c(c_version())
   end function knarr_version

   ! Hints that state nothing, or what 'text' states.
   function knarr_new_hints(text) result(hints)
      character(*), intent(in), optional :: text
      type(knarr_hints) :: hints
      call finish(c_hints_init(hints, c_sizeof(hints)))
      if (present(text)) call knarr_set_hints(hints, text)
   end function knarr_new_hints

   ! States hints from text: "max_abs_error=0.01 goal=ratio".
   subroutine knarr_set_hints(hints, text, status, message)
      type(knarr_hints), intent(inout) :: hints
      character(*), intent(in) :: text
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_hints_set(hints, to_c(text)), status, message)
   end subroutine knarr_set_hints

   ! What is stated, as knarr_set_hints takes it.
   function knarr_hints_text(hints) result(text)
      type(knarr_hints), intent(in) :: hints
      character(:), allocatable :: text
      character(kind=c_char) :: buffer(2048)
      integer(c_size_t) :: length
      call finish(c_hints_print(hints, buffer, size(buffer, kind=c_size_t), length))
      text = knarr_text(buffer)
   end function knarr_hints_text

   ! Makes a context; without hints for lossless and the goal 'balanced'.
   subroutine knarr_create(context, hints, status, message)
      type(knarr_context), intent(out) :: context
      type(knarr_hints), intent(in), optional :: hints
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_context_create(hints, context%handle), status, message)
   end subroutine knarr_create

   ! Ends a context. More than once does no harm, but copies of it are ended too.
   subroutine knarr_free(context)
      type(knarr_context), intent(inout) :: context
      call c_context_free(context%handle)
      context%handle = c_null_ptr
   end subroutine knarr_free

   ! What a frame holds.
   subroutine knarr_inspect(context, frame, info, status, message)
      type(knarr_context), intent(in) :: context
      integer(int8), intent(in) :: frame(:)
      type(knarr_info), intent(out) :: info
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      info%size = c_sizeof(info)
      call finish(c_inspect(context%handle, frame, size(frame, kind=c_size_t), info), status, message)
   end subroutine knarr_inspect

   ! Client data for Knarr's HDF5 filter: call h5pset_filter_f(list, knarr_hdf5_filter, ..., size(words), words, ...)
   subroutine knarr_filter_words(hints, words, status, message)
      type(knarr_hints), intent(in) :: hints
      integer(c_int32_t), allocatable, intent(out) :: words(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int32_t) :: buffer(20)
      integer(c_size_t) :: count
      integer(c_int) :: done
      count = 0
      done = c_filter_words(hints, buffer, size(buffer, kind=c_size_t), count)
      if (done == knarr_ok) words = buffer(:count)
      call finish(done, status, message)
   end subroutine knarr_filter_words

   ! Subscripts, from 1, of the element that an index of knarr_validation means in an array of this shape.
   pure function knarr_subscripts(index, shape) result(subscripts)
      integer(c_int64_t), intent(in) :: index
      integer, intent(in) :: shape(:)
      integer(c_int64_t) :: subscripts(size(shape)), rest
      integer :: axis
      rest = index
      do axis = 1, size(shape)
         subscripts(axis) = modulo(rest, int(shape(axis), c_int64_t)) + 1
         rest = rest/shape(axis)
      end do
   end function knarr_subscripts

   ! The number of the type: as asked, if its elements have the same size, else that of Fortran's.
   pure function number(own, asked) result(dtype)
      integer(c_int32_t), intent(in) :: own
      integer(c_int32_t), intent(in), optional :: asked
      integer(c_int32_t) :: dtype
      dtype = own
      if (.not. present(asked)) return
      dtype = asked
      ! An unsigned type of another size would read memory that is not the array's: no type has the number 0.
      if (asked /= own .and. asked /= own + 4) dtype = 0
      if (own >= knarr_float32 .and. asked /= own) dtype = 0
   end function number

   subroutine compress(context, source, dtype, shape, frame, status, message)
      type(knarr_context), intent(in) :: context
      type(c_ptr), intent(in) :: source
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: shape(:)
      integer(int8), allocatable, intent(out) :: frame(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(int8), allocatable :: buffer(:)
      integer(c_size_t) :: bound, length
      integer(c_int) :: done
      integer :: refused
      done = c_compress_bound(dtype, size(shape, kind=c_int32_t), extents(shape), bound)
      if (done == knarr_ok) then
         allocate (buffer(bound), stat=refused)
         ! Without a buffer the library says what is missing.
         if (refused /= 0) then
            allocate (buffer(0))
            bound = 0
         end if
         done = c_compress(context%handle, source, dtype, size(shape, kind=c_int32_t), extents(shape), buffer, bound, length)
      end if
      if (done == knarr_ok) frame = buffer(:length)
      call finish(done, status, message)
   end subroutine compress

   subroutine decompress(context, frame, dtype, shape, target, status, message)
      type(knarr_context), intent(in) :: context
      integer(int8), intent(in), contiguous :: frame(:)
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: shape(:)
      type(c_ptr), intent(in) :: target
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      type(knarr_info) :: info
      integer(c_size_t) :: length
      integer(c_int) :: done
      logical :: fits
      info%size = c_sizeof(info)
      done = c_inspect(context%handle, frame, size(frame, kind=c_size_t), info)
      if (done == knarr_ok) then
         fits = info%rank == size(shape) .and. (info%dtype == dtype .or. (dtype <= knarr_int64 .and. info%dtype == dtype + 4))
         if (fits) fits = all(info%shape(:info%rank) == extents(shape))
         if (.not. fits) then
            if (present(message)) message = 'the frame has another type or shape than the array; ask knarr_inspect for them'
            if (.not. present(status)) error stop 'knarr_decompress: the frame has another type or shape than the array'
            status = knarr_usage
            return
         end if
         done = c_decompress(context%handle, frame, size(frame, kind=c_size_t), target, info%raw_size, length)
      end if
      call finish(done, status, message)
   end subroutine decompress

   subroutine validate(context, frame, original, dtype, shape, observed, found, status, message)
      type(knarr_context), intent(in) :: context
      integer(int8), intent(in), contiguous :: frame(:)
      type(c_ptr), intent(in) :: original
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: shape(:)
      type(knarr_hints), intent(out) :: observed
      type(knarr_validation), intent(out) :: found
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      observed = knarr_new_hints()
      found%size = c_sizeof(found)
      call finish(c_validate(context%handle, frame, size(frame, kind=c_size_t), original, dtype, &
         size(shape, kind=c_int32_t), extents(shape), observed, found), status, message)
   end subroutine validate

   subroutine explain(context, source, dtype, shape, text, status, message)
      type(knarr_context), intent(in) :: context
      type(c_ptr), intent(in) :: source
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: shape(:)
      character(:), allocatable, intent(out) :: text
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      character(kind=c_char), allocatable :: buffer(:)
      integer(c_size_t) :: length
      integer(c_int) :: done
      allocate (buffer(65536))
      done = c_explain(context%handle, source, dtype, size(shape, kind=c_int32_t), extents(shape), buffer, &
         size(buffer, kind=c_size_t), length)
      if (done == knarr_ok) text = knarr_text(buffer)
      call finish(done, status, message)
   end subroutine explain

   !each number
   subroutine compress_{kind}(context, array, frame, dtype, status, message)
      type(knarr_context), intent(in) :: context
      {type}, intent(in), target, contiguous :: array(..)
      integer(int8), allocatable, intent(out) :: frame(:)
      integer(c_int32_t), intent(in), optional :: dtype
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call compress(context, c_loc(array), number({dtype}, dtype), shape(array, kind=c_size_t), frame, status, message)
   end subroutine compress_{kind}

   subroutine decompress_{kind}(context, frame, array, status, message)
      type(knarr_context), intent(in) :: context
      integer(int8), intent(in), contiguous :: frame(:)
      {type}, intent(inout), target, contiguous :: array(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call decompress(context, frame, {dtype}, shape(array, kind=c_size_t), c_loc(array), status, message)
   end subroutine decompress_{kind}

   subroutine validate_{kind}(context, frame, array, observed, found, dtype, status, message)
      type(knarr_context), intent(in) :: context
      integer(int8), intent(in), contiguous :: frame(:)
      {type}, intent(in), target, contiguous :: array(..)
      type(knarr_hints), intent(out) :: observed
      type(knarr_validation), intent(out) :: found
      integer(c_int32_t), intent(in), optional :: dtype
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call validate(context, frame, c_loc(array), number({dtype}, dtype), shape(array, kind=c_size_t), observed, found, &
         status, message)
   end subroutine validate_{kind}

   subroutine explain_{kind}(context, array, text, dtype, status, message)
      type(knarr_context), intent(in) :: context
      {type}, intent(in), target, contiguous :: array(..)
      character(:), allocatable, intent(out) :: text
      integer(c_int32_t), intent(in), optional :: dtype
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call explain(context, c_loc(array), number({dtype}, dtype), shape(array, kind=c_size_t), text, status, message)
   end subroutine explain_{kind}

   !end each
end module knarr
