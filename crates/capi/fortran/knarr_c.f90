! The functions, structures and constants of knarr.h as Fortran sees them. Programs use the module knarr.
module knarr_c
   use, intrinsic :: iso_c_binding
   implicit none
   public

   integer(c_int), parameter :: knarr_ok = 0, knarr_usage = 1, knarr_config = 2, knarr_not_found = 3, &
      knarr_exists = 4, knarr_read = 5, knarr_write = 6, knarr_corrupt = 7, knarr_missing_filter = 8, &
      knarr_unsupported = 9, knarr_quality = 10, knarr_differs = 11, knarr_interrupted = 12, knarr_internal = 13
   integer(c_int32_t), parameter :: knarr_int8 = 1, knarr_int16 = 2, knarr_int32 = 3, knarr_int64 = 4, &
      knarr_uint8 = 5, knarr_uint16 = 6, knarr_uint32 = 7, knarr_uint64 = 8, knarr_float16 = 9, knarr_float32 = 10, &
      knarr_float64 = 11
   integer(c_int32_t), parameter :: knarr_mb_per_second = 0, knarr_times_network = 1, knarr_times_storage = 2
   integer(c_int32_t), parameter :: knarr_max_rank = 32, knarr_hdf5_filter = 45223, knarr_unset = -1
   ! For knarr_open_restart: the newest checkpoint that is whole.
   integer(c_int64_t), parameter :: knarr_latest = -1
   ! For knarr_def_dim: it can grow.
   integer, parameter :: knarr_unlimited = 0

   ! The fields are described in knarr.h. Make one with knarr_new_hints().
   type, bind(c) :: knarr_hints
      integer(c_size_t) :: size
      real(c_double) :: max_abs_error, max_range_error, max_rel_error, finest_abs_error
      integer(c_int32_t) :: significant_bits, significant_digits
      real(c_double) :: exact_up_to, exact_from, fill_value
      real(c_double) :: encode_speed, decode_speed
      integer(c_int32_t) :: encode_unit, decode_unit
      real(c_double) :: network_speed, storage_speed
      character(kind=c_char) :: goal(128), chain(256), profile(1024)
   end type knarr_hints

   ! What a frame holds; the extents are in the order of C.
   type, bind(c) :: knarr_info
      integer(c_size_t) :: size
      integer(c_int32_t) :: dtype, rank
      integer(c_size_t) :: shape(knarr_max_rank)
      integer(c_size_t) :: raw_size, frame_size
      integer(c_int32_t) :: lossy
      character(kind=c_char) :: chain(512)
   end type knarr_info

   ! Indices count elements in memory from 0, -1 is none; knarr_subscripts() makes subscripts of them.
   type, bind(c) :: knarr_validation
      integer(c_size_t) :: size
      integer(c_int32_t) :: holds
      integer(c_int64_t) :: elements, changed, worst_abs, worst_rel, worst_bits, worst_digits, first_miss
      character(kind=c_char) :: miss(256)
   end type knarr_validation

   interface
      function c_version() bind(c, name="knarr_version") result(text)
         import :: c_ptr
         type(c_ptr) :: text
      end function c_version

      function c_last_error() bind(c, name="knarr_last_error") result(text)
         import :: c_ptr
         type(c_ptr) :: text
      end function c_last_error

      function c_hints_init(hints, size) bind(c, name="knarr_hints_init") result(status)
         import :: knarr_hints, c_size_t, c_int
         type(knarr_hints), intent(out) :: hints
         integer(c_size_t), value :: size
         integer(c_int) :: status
      end function c_hints_init

      function c_hints_set(hints, words) bind(c, name="knarr_hints_set") result(status)
         import :: knarr_hints, c_char, c_int
         type(knarr_hints), intent(inout) :: hints
         character(kind=c_char), intent(in) :: words(*)
         integer(c_int) :: status
      end function c_hints_set

      function c_hints_print(hints, text, capacity, length) bind(c, name="knarr_hints_print") result(status)
         import :: knarr_hints, c_char, c_size_t, c_int
         type(knarr_hints), intent(in) :: hints
         character(kind=c_char), intent(out) :: text(*)
         integer(c_size_t), value :: capacity
         integer(c_size_t), intent(out) :: length
         integer(c_int) :: status
      end function c_hints_print

      function c_context_create(hints, context) bind(c, name="knarr_context_create") result(status)
         import :: knarr_hints, c_ptr, c_int
         type(knarr_hints), intent(in), optional :: hints
         type(c_ptr), intent(out) :: context
         integer(c_int) :: status
      end function c_context_create

      subroutine c_context_free(context) bind(c, name="knarr_context_free")
         import :: c_ptr
         type(c_ptr), value :: context
      end subroutine c_context_free

      function c_compress_bound(dtype, rank, shape, bound) bind(c, name="knarr_compress_bound") result(status)
         import :: c_int32_t, c_size_t, c_int
         integer(c_int32_t), value :: dtype, rank
         integer(c_size_t), intent(in) :: shape(*)
         integer(c_size_t), intent(out) :: bound
         integer(c_int) :: status
      end function c_compress_bound

      function c_compress(context, source, dtype, rank, shape, frame, capacity, frame_size) &
         bind(c, name="knarr_compress") result(status)
         import :: c_ptr, c_int8_t, c_int32_t, c_size_t, c_int
         type(c_ptr), value :: context, source
         integer(c_int32_t), value :: dtype, rank
         integer(c_size_t), intent(in) :: shape(*)
         integer(c_int8_t), intent(out) :: frame(*)
         integer(c_size_t), value :: capacity
         integer(c_size_t), intent(out) :: frame_size
         integer(c_int) :: status
      end function c_compress

      function c_inspect(context, frame, frame_size, info) bind(c, name="knarr_inspect") result(status)
         import :: c_ptr, c_int8_t, c_size_t, c_int, knarr_info
         type(c_ptr), value :: context
         integer(c_int8_t), intent(in) :: frame(*)
         integer(c_size_t), value :: frame_size
         type(knarr_info), intent(inout) :: info
         integer(c_int) :: status
      end function c_inspect

      function c_decompress(context, frame, frame_size, destination, capacity, raw_size) &
         bind(c, name="knarr_decompress") result(status)
         import :: c_ptr, c_int8_t, c_size_t, c_int
         type(c_ptr), value :: context, destination
         integer(c_int8_t), intent(in) :: frame(*)
         integer(c_size_t), value :: frame_size, capacity
         integer(c_size_t), intent(out) :: raw_size
         integer(c_int) :: status
      end function c_decompress

      function c_validate(context, frame, frame_size, original, dtype, rank, shape, observed, result) &
         bind(c, name="knarr_validate") result(status)
         import :: c_ptr, c_int8_t, c_int32_t, c_size_t, c_int, knarr_hints, knarr_validation
         type(c_ptr), value :: context, original
         integer(c_int8_t), intent(in) :: frame(*)
         integer(c_size_t), value :: frame_size
         integer(c_int32_t), value :: dtype, rank
         integer(c_size_t), intent(in) :: shape(*)
         type(knarr_hints), intent(inout) :: observed
         type(knarr_validation), intent(inout) :: result
         integer(c_int) :: status
      end function c_validate

      function c_explain(context, source, dtype, rank, shape, text, capacity, length) &
         bind(c, name="knarr_explain") result(status)
         import :: c_ptr, c_char, c_int32_t, c_size_t, c_int
         type(c_ptr), value :: context, source
         integer(c_int32_t), value :: dtype, rank
         integer(c_size_t), intent(in) :: shape(*)
         character(kind=c_char), intent(out) :: text(*)
         integer(c_size_t), value :: capacity
         integer(c_size_t), intent(out) :: length
         integer(c_int) :: status
      end function c_explain

      function c_filter_words(hints, words, capacity, count) bind(c, name="knarr_filter_words") result(status)
         import :: knarr_hints, c_int32_t, c_size_t, c_int
         type(knarr_hints), intent(in) :: hints
         integer(c_int32_t), intent(out) :: words(*)
         integer(c_size_t), value :: capacity
         integer(c_size_t), intent(out) :: count
         integer(c_int) :: status
      end function c_filter_words

      pure function c_strlen(text) bind(c, name="strlen") result(length)
         import :: c_ptr, c_size_t
         type(c_ptr), value :: text
         integer(c_size_t) :: length
      end function c_strlen
   end interface
end module knarr_c
