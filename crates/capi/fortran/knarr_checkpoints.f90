! Checkpoints of a program: the functions knarr_checkpoint_... and knarr_restart_... of knarr.h. As in module knarr,
! dimensions are turned round on the way, calls have an optional 'status' and 'message', and an error without 'status' stops
! the program. Subscripts count from 1. A program with MPI compiles knarr_mpi.f90 and knarr_mpi.c, too.
module knarr_checkpoints
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
   use knarr_c, only: knarr_ok, knarr_int8, knarr_int16, knarr_int32, knarr_int64, knarr_float32, knarr_float64, &
      knarr_max_rank, knarr_latest
   use knarr_support
   implicit none
   private

   public :: knarr_latest

   ! The ranks of a program, for knarr_open_checkpoints: knarr_ranks() of module knarr_mpi makes one.
   type, bind(c), public :: knarr_comm
      integer(c_int32_t) :: version = 0, rank = 0, size = 1, node = 0
      type(c_ptr) :: context = c_null_ptr
      type(c_funptr) :: send = c_null_funptr, receive = c_null_funptr, message = c_null_funptr
      type(c_funptr) :: end = c_null_funptr, abort = c_null_funptr
   end type knarr_comm

   ! The checkpoints of a program in a directory. Open it with knarr_open_checkpoints, close it with
   ! knarr_close_checkpoints.
   type, public :: knarr_checkpoint
      private
      type(c_ptr) :: handle = c_null_ptr
   end type knarr_checkpoint

   ! A checkpoint to restart from. Open it with knarr_open_restart, close it with knarr_close_restart.
   type, public :: knarr_restart
      private
      type(c_ptr) :: handle = c_null_ptr
   end type knarr_restart

   public :: knarr_open_checkpoints, knarr_begin, knarr_put, knarr_add_file, knarr_commit, knarr_test, knarr_wait, &
      knarr_warnings, knarr_close_checkpoints, knarr_open_restart, knarr_has_checkpoint, knarr_about, knarr_describe, &
      knarr_read_array, knarr_restore_files, knarr_close_restart

   ! call knarr_put(checkpoint, name, array [, global_shape, start, status, message])
   ! Copies an array. With 'global_shape' it is the region of a global array of this shape that begins at the subscripts 'start',
   ! ones if they are left out; without, this rank's own.
   interface knarr_put
      module procedure put_int8, put_int16, put_int32, put_int64, put_real32, put_real64
      module procedure put_complex32, put_complex64, put_logical
   end interface knarr_put

   ! call knarr_read_array(restart, name, array [, start, status, message])
   ! Fills 'array' with the region of its shape of a global array that begins at the subscripts 'start', ones if they are
   ! left out, or with the array that this rank had of its own.
   interface knarr_read_array
      module procedure read_int8, read_int16, read_int32, read_int64, read_real32, read_real64
      module procedure read_complex32, read_complex64, read_logical
   end interface knarr_read_array

   interface
      function c_checkpoint_open(directory, options, comm, checkpoint) &
         bind(c, name="knarr_checkpoint_open") result(status)
         import :: c_char, c_ptr, c_int
         character(kind=c_char), intent(in) :: directory(*), options(*)
         type(c_ptr), value :: comm
         type(c_ptr), intent(out) :: checkpoint
         integer(c_int) :: status
      end function c_checkpoint_open

      function c_checkpoint_begin(checkpoint, step) bind(c, name="knarr_checkpoint_begin") result(status)
         import :: c_ptr, c_int64_t, c_int
         type(c_ptr), value :: checkpoint
         integer(c_int64_t), value :: step
         integer(c_int) :: status
      end function c_checkpoint_begin

      function c_checkpoint_put(checkpoint, name, source, dtype, rank, count, shape, start) &
         bind(c, name="knarr_checkpoint_put") result(status)
         import :: c_ptr, c_char, c_int32_t, c_size_t, c_int
         type(c_ptr), value :: checkpoint, source
         character(kind=c_char), intent(in) :: name(*)
         integer(c_int32_t), value :: dtype, rank
         integer(c_size_t), intent(in) :: count(*)
         integer(c_size_t), intent(in), optional :: shape(*), start(*)
         integer(c_int) :: status
      end function c_checkpoint_put

      function c_checkpoint_add_file(checkpoint, path, name) bind(c, name="knarr_checkpoint_add_file") result(status)
         import :: c_ptr, c_char, c_int
         type(c_ptr), value :: checkpoint
         character(kind=c_char), intent(in) :: path(*)
         character(kind=c_char), intent(in), optional :: name(*)
         integer(c_int) :: status
      end function c_checkpoint_add_file

      function c_checkpoint_commit(checkpoint) bind(c, name="knarr_checkpoint_commit") result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: checkpoint
         integer(c_int) :: status
      end function c_checkpoint_commit

      function c_checkpoint_test(checkpoint, done) bind(c, name="knarr_checkpoint_test") result(status)
         import :: c_ptr, c_int32_t, c_int
         type(c_ptr), value :: checkpoint
         integer(c_int32_t), intent(out) :: done
         integer(c_int) :: status
      end function c_checkpoint_test

      function c_checkpoint_wait(checkpoint) bind(c, name="knarr_checkpoint_wait") result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: checkpoint
         integer(c_int) :: status
      end function c_checkpoint_wait

      function c_checkpoint_warnings(checkpoint, text, capacity, length) &
         bind(c, name="knarr_checkpoint_warnings") result(status)
         import :: c_ptr, c_char, c_size_t, c_int
         type(c_ptr), value :: checkpoint
         character(kind=c_char), intent(out) :: text(*)
         integer(c_size_t), value :: capacity
         integer(c_size_t), intent(out) :: length
         integer(c_int) :: status
      end function c_checkpoint_warnings

      function c_checkpoint_restart(checkpoint, step, verify, restart) &
         bind(c, name="knarr_checkpoint_restart") result(status)
         import :: c_ptr, c_int64_t, c_int32_t, c_int
         type(c_ptr), value :: checkpoint
         integer(c_int64_t), value :: step
         integer(c_int32_t), value :: verify
         type(c_ptr), intent(out) :: restart
         integer(c_int) :: status
      end function c_checkpoint_restart

      function c_checkpoint_close(checkpoint) bind(c, name="knarr_checkpoint_close") result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: checkpoint
         integer(c_int) :: status
      end function c_checkpoint_close

      function c_restart_about(restart, step, ranks) bind(c, name="knarr_restart_about") result(status)
         import :: c_ptr, c_int64_t, c_int
         type(c_ptr), value :: restart
         integer(c_int64_t), intent(out) :: step, ranks
         integer(c_int) :: status
      end function c_restart_about

      function c_restart_describe(restart, name, dtype, rank, shape, is_global) &
         bind(c, name="knarr_restart_describe") result(status)
         import :: c_ptr, c_char, c_int32_t, c_size_t, c_int
         type(c_ptr), value :: restart
         character(kind=c_char), intent(in) :: name(*)
         integer(c_int32_t), intent(out) :: dtype, rank, is_global
         integer(c_size_t), intent(out) :: shape(*)
         integer(c_int) :: status
      end function c_restart_describe

      function c_restart_read(restart, name, target, dtype, rank, count, start) &
         bind(c, name="knarr_restart_read") result(status)
         import :: c_ptr, c_char, c_int32_t, c_size_t, c_int
         type(c_ptr), value :: restart, target
         character(kind=c_char), intent(in) :: name(*)
         integer(c_int32_t), value :: dtype, rank
         integer(c_size_t), intent(in) :: count(*)
         integer(c_size_t), intent(in), optional :: start(*)
         integer(c_int) :: status
      end function c_restart_read

      function c_restart_files(restart, directory, force) bind(c, name="knarr_restart_files") result(status)
         import :: c_ptr, c_char, c_int32_t, c_int
         type(c_ptr), value :: restart
         character(kind=c_char), intent(in) :: directory(*)
         integer(c_int32_t), value :: force
         integer(c_int) :: status
      end function c_restart_files

      subroutine c_restart_free(restart) bind(c, name="knarr_restart_free")
         import :: c_ptr
         type(c_ptr), value :: restart
      end subroutine c_restart_free
   end interface

contains

   ! Opens a directory of checkpoints, with options such as 'keep=3 goal=ratio', which knarr.h describes. Collective, as are
   ! all calls with a knarr_checkpoint but knarr_put and knarr_add_file. Without 'comm' the program is one process.
   subroutine knarr_open_checkpoints(checkpoint, directory, options, comm, status, message)
      type(knarr_checkpoint), intent(out) :: checkpoint
      character(*), intent(in) :: directory
      character(*), intent(in), optional :: options
      type(knarr_comm), intent(in), target, optional :: comm
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      character(:), allocatable :: words
      type(c_ptr) :: ranks
      words = ''
      if (present(options)) words = options
      ranks = c_null_ptr
      if (present(comm)) ranks = c_loc(comm)
      call finish(c_checkpoint_open(to_c(directory), to_c(words), ranks, checkpoint%handle), status, message)
   end subroutine knarr_open_checkpoints

   ! Begins a step, counted from 0, after waiting for the one before.
   subroutine knarr_begin(checkpoint, step, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      integer(c_int64_t), intent(in) :: step
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_checkpoint_begin(checkpoint%handle, step), status, message)
   end subroutine knarr_begin

   ! Adds a file of this rank, under 'name' or its own; it must stay as it is until knarr_wait returns.
   subroutine knarr_add_file(checkpoint, path, name, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: path
      character(*), intent(in), optional :: name
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int) :: done
      if (present(name)) then
         done = c_checkpoint_add_file(checkpoint%handle, to_c(path), to_c(name))
      else
         done = c_checkpoint_add_file(checkpoint%handle, to_c(path))
      end if
      call finish(done, status, message)
   end subroutine knarr_add_file

   ! Hands the step over; packing goes on in the background.
   subroutine knarr_commit(checkpoint, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_checkpoint_commit(checkpoint%handle), status, message)
   end subroutine knarr_commit

   ! 'done' says whether no step is under way.
   subroutine knarr_test(checkpoint, done, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      logical, intent(out) :: done
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int32_t) :: is_done
      integer(c_int) :: result
      is_done = 0
      result = c_checkpoint_test(checkpoint%handle, is_done)
      done = is_done /= 0
      call finish(result, status, message)
   end subroutine knarr_test

   ! Waits until no step is under way.
   subroutine knarr_wait(checkpoint, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_checkpoint_wait(checkpoint%handle), status, message)
   end subroutine knarr_wait

   ! What went wrong without being an error of a call, on rank 0; empty if nothing did.
   function knarr_warnings(checkpoint) result(text)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(:), allocatable :: text
      character(kind=c_char) :: buffer(65536)
      integer(c_size_t) :: length
      call finish(c_checkpoint_warnings(checkpoint%handle, buffer, size(buffer, kind=c_size_t), length))
      text = knarr_text(buffer)
   end function knarr_warnings

   ! Waits for the step under way, says what became of it, and ends 'checkpoint'.
   subroutine knarr_close_checkpoints(checkpoint, status, message)
      type(knarr_checkpoint), intent(inout) :: checkpoint
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      type(c_ptr) :: handle
      handle = checkpoint%handle
      checkpoint%handle = c_null_ptr
      call finish(c_checkpoint_close(handle), status, message)
   end subroutine knarr_close_checkpoints

   ! Opens the checkpoint of 'step', or the newest one that is whole; knarr_has_checkpoint says whether there is one. With
   ! 'verify' all of it is read and checked first.
   subroutine knarr_open_restart(checkpoint, restart, step, verify, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      type(knarr_restart), intent(out) :: restart
      integer(c_int64_t), intent(in), optional :: step
      logical, intent(in), optional :: verify
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int64_t) :: wanted
      integer(c_int32_t) :: checked
      wanted = knarr_latest
      if (present(step)) wanted = step
      checked = 0
      if (present(verify)) checked = merge(1, 0, verify)
      call finish(c_checkpoint_restart(checkpoint%handle, wanted, checked, restart%handle), status, message)
   end subroutine knarr_open_restart

   ! Whether there is a checkpoint to restart from.
   pure function knarr_has_checkpoint(restart) result(has)
      type(knarr_restart), intent(in) :: restart
      logical :: has
      has = c_associated(restart%handle)
   end function knarr_has_checkpoint

   ! Step of the checkpoint, and number of the ranks that made it.
   subroutine knarr_about(restart, step, ranks, status, message)
      type(knarr_restart), intent(in) :: restart
      integer(c_int64_t), intent(out) :: step, ranks
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_restart_about(restart%handle, step, ranks), status, message)
   end subroutine knarr_about

   ! Type, shape and kind of an array: global, or this rank's own.
   subroutine knarr_describe(restart, name, dtype, shape, is_global, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      integer(c_int32_t), intent(out) :: dtype
      integer(c_size_t), allocatable, intent(out) :: shape(:)
      logical, intent(out) :: is_global
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_size_t) :: found(knarr_max_rank)
      integer(c_int32_t) :: axes, global
      integer(c_int) :: done
      axes = 0
      global = 0
      done = c_restart_describe(restart%handle, to_c(name), dtype, axes, found, global)
      shape = extents(found(:axes))
      is_global = global /= 0
      call finish(done, status, message)
   end subroutine knarr_describe

   ! Brings back the files that this rank added, below 'directory'; 'force' replaces those that are there.
   subroutine knarr_restore_files(restart, directory, force, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: directory
      logical, intent(in), optional :: force
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int32_t) :: replace
      replace = 0
      if (present(force)) replace = merge(1, 0, force)
      call finish(c_restart_files(restart%handle, to_c(directory), replace), status, message)
   end subroutine knarr_restore_files

   ! Ends a restart. More than once does no harm, but copies of it are ended too.
   subroutine knarr_close_restart(restart)
      type(knarr_restart), intent(inout) :: restart
      call c_restart_free(restart%handle)
      restart%handle = c_null_ptr
   end subroutine knarr_close_restart

   subroutine put(checkpoint, name, source, dtype, count, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      type(c_ptr), intent(in) :: source
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: count(:)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_size_t) :: from(size(count))
      integer(c_int) :: done
      if (.not. present(global_shape)) then
         if (present(start)) then
            call spoil(checkpoint, name, dtype)
            call refuse('knarr_put: "start" needs the "global_shape" in which it is', status, message)
            return
         end if
         done = c_checkpoint_put(checkpoint%handle, to_c(name), source, dtype, size(count, kind=c_int32_t), extents(count))
      else
         from = 0
         if (wrong(size(global_shape), start, size(count))) then
            call spoil(checkpoint, name, dtype)
            call refuse('knarr_put: "global_shape" and "start" have other dimensions than the array', status, message)
            return
         end if
         if (present(start)) from = start - 1
         done = c_checkpoint_put(checkpoint%handle, to_c(name), source, dtype, size(count, kind=c_int32_t), extents(count), &
            extents(int(global_shape, c_size_t)), extents(from))
      end if
      call finish(done, status, message)
   end subroutine put

   subroutine read(restart, name, target, dtype, count, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      type(c_ptr), intent(in) :: target
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: count(:)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_size_t) :: from(size(count))
      integer(c_int) :: done
      if (present(start)) then
         if (wrong(size(count), start, size(count))) then
            call refuse('knarr_read_array: "start" has other dimensions than the array', status, message)
            return
         end if
         from = start - 1
         done = c_restart_read(restart%handle, to_c(name), target, dtype, size(count, kind=c_int32_t), extents(count), &
            extents(from))
      else
         done = c_restart_read(restart%handle, to_c(name), target, dtype, size(count, kind=c_int32_t), extents(count))
      end if
      call finish(done, status, message)
   end subroutine read

   pure function wrong(axes, start, wanted)
      integer, intent(in) :: axes, wanted
      integer, intent(in), optional :: start(:)
      logical :: wrong
      wrong = axes /= wanted
      if (present(start)) wrong = wrong .or. size(start) /= wanted
   end function wrong

   ! A step that lacks an array cannot be committed: one that is nowhere is refused.
   subroutine spoil(checkpoint, name, dtype)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      integer(c_int32_t), intent(in) :: dtype
      integer(c_int) :: ignored
      ignored = c_checkpoint_put(checkpoint%handle, to_c(name), c_null_ptr, dtype, 1_c_int32_t, [1_c_size_t])
   end subroutine spoil

   subroutine refuse(why, status, message)
      character(*), intent(in) :: why
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      if (present(message)) message = why
      if (.not. present(status)) error stop why
      status = 1
   end subroutine refuse

   subroutine put_int8(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      integer(int8), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), knarr_int8, shape(array, kind=c_size_t), global_shape, start, status, message)
   end subroutine put_int8

   subroutine put_int16(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      integer(int16), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), knarr_int16, shape(array, kind=c_size_t), global_shape, start, status, message)
   end subroutine put_int16

   subroutine put_int32(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      integer(int32), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), knarr_int32, shape(array, kind=c_size_t), global_shape, start, status, message)
   end subroutine put_int32

   subroutine put_int64(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      integer(int64), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), knarr_int64, shape(array, kind=c_size_t), global_shape, start, status, message)
   end subroutine put_int64

   subroutine put_real32(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      real(real32), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), knarr_float32, shape(array, kind=c_size_t), global_shape, start, status, message)
   end subroutine put_real32

   subroutine put_real64(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      real(real64), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), knarr_float64, shape(array, kind=c_size_t), global_shape, start, status, message)
   end subroutine put_real64

   subroutine read_int8(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      integer(int8), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), knarr_int8, shape(array, kind=c_size_t), start, status, message)
   end subroutine read_int8

   subroutine read_int16(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      integer(int16), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), knarr_int16, shape(array, kind=c_size_t), start, status, message)
   end subroutine read_int16

   subroutine read_int32(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      integer(int32), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), knarr_int32, shape(array, kind=c_size_t), start, status, message)
   end subroutine read_int32

   subroutine read_int64(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      integer(int64), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), knarr_int64, shape(array, kind=c_size_t), start, status, message)
   end subroutine read_int64

   subroutine read_real32(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      real(real32), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), knarr_float32, shape(array, kind=c_size_t), start, status, message)
   end subroutine read_real32

   subroutine read_real64(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      real(real64), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), knarr_float64, shape(array, kind=c_size_t), start, status, message)
   end subroutine read_real64

   ! Complex numbers are reals with one more axis, the first, of real and imaginary part.
   subroutine put_complex32(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      complex(real32), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer, allocatable :: whole(:), first(:)
      if (present(global_shape)) then
         allocate (whole(size(global_shape) + 1))
         whole(1) = 2
         whole(2:) = global_shape
      end if
      if (present(start)) then
         allocate (first(size(start) + 1))
         first(1) = 1
         first(2:) = start
      end if
      call put(checkpoint, name, c_loc(array), knarr_float32, [2_c_size_t, shape(array, kind=c_size_t)], whole, first, &
               status, message)
   end subroutine put_complex32

   subroutine read_complex32(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      complex(real32), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer, allocatable :: first(:)
      if (present(start)) then
         allocate (first(size(start) + 1))
         first(1) = 1
         first(2:) = start
      end if
      call read(restart, name, c_loc(array), knarr_float32, [2_c_size_t, shape(array, kind=c_size_t)], first, status, message)
   end subroutine read_complex32

   ! Complex numbers are reals with one more axis, the first, of real and imaginary part.
   subroutine put_complex64(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      complex(real64), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer, allocatable :: whole(:), first(:)
      if (present(global_shape)) then
         allocate (whole(size(global_shape) + 1))
         whole(1) = 2
         whole(2:) = global_shape
      end if
      if (present(start)) then
         allocate (first(size(start) + 1))
         first(1) = 1
         first(2:) = start
      end if
      call put(checkpoint, name, c_loc(array), knarr_float64, [2_c_size_t, shape(array, kind=c_size_t)], whole, first, &
               status, message)
   end subroutine put_complex64

   subroutine read_complex64(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      complex(real64), intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer, allocatable :: first(:)
      if (present(start)) then
         allocate (first(size(start) + 1))
         first(1) = 1
         first(2:) = start
      end if
      call read(restart, name, c_loc(array), knarr_float64, [2_c_size_t, shape(array, kind=c_size_t)], first, status, message)
   end subroutine read_complex64

   ! Logicals of the default kind are integers of 32 bits.
   subroutine put_logical(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      logical, intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), knarr_int32, shape(array, kind=c_size_t), global_shape, start, status, message)
   end subroutine put_logical

   subroutine read_logical(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      logical, intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), knarr_int32, shape(array, kind=c_size_t), start, status, message)
   end subroutine read_logical

end module knarr_checkpoints
