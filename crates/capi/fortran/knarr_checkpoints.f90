! Checkpoints of a program: the functions knarr_checkpoint_... and knarr_restart_... of knarr.h. As in module knarr,
! dimensions are turned round on the way, calls have an optional 'status' and 'message', and an error without 'status' stops
! the program. Subscripts count from 1. A program with MPI compiles knarr_mpi.f90 and knarr_mpi.c, too.
module knarr_checkpoints
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
   use knarr_c, only: knarr_int8, knarr_int16, knarr_int32, knarr_int64, knarr_float32, knarr_float64, &
      knarr_max_rank, knarr_latest
   use knarr_support
   implicit none
   private

   public :: knarr_latest, knarr_comm

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

   public :: knarr_open_checkpoints, knarr_begin, knarr_put, knarr_add_file, knarr_commit, knarr_test, knarr_need, &
      knarr_wait, knarr_warnings, knarr_close_checkpoints, knarr_open_restart, knarr_has_checkpoint, knarr_about, knarr_describe, &
      knarr_read_array, knarr_restore_files, knarr_close_restart

   ! call knarr_put(checkpoint, name, array [, global_shape, start, status, message])
   ! Copies an array. With 'global_shape' it is the region of a global array of this shape that begins at the subscripts 'start',
   ! ones if they are left out; without, this rank's own.
   interface knarr_put
      !each number complex logical
      module procedure put_{kind}
      !end each
   end interface knarr_put

   ! call knarr_read_array(restart, name, array [, start, status, message])
   ! Fills 'array' with the region of its shape of a global array that begins at the subscripts 'start', ones if they are
   ! left out, or with the array that this rank had of its own.
   interface knarr_read_array
      !each number complex logical
      module procedure read_{kind}
      !end each
   end interface knarr_read_array

   interface
      !like c_open checkpoint_open
      !like c_call checkpoint_commit checkpoint_wait checkpoint_close
      !like c_test checkpoint_test checkpoint_need
      !like c_print checkpoint_warnings
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

      function c_checkpoint_restart(checkpoint, step, verify, restart) &
         bind(c, name="knarr_checkpoint_restart") result(status)
         import :: c_ptr, c_int64_t, c_int32_t, c_int
         type(c_ptr), value :: checkpoint
         integer(c_int64_t), value :: step
         integer(c_int32_t), value :: verify
         type(c_ptr), intent(out) :: restart
         integer(c_int) :: status
      end function c_checkpoint_restart

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
      type(knarr_comm), intent(in), optional :: comm
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call open_session(c_checkpoint_open, checkpoint%handle, directory, options, comm, status, message)
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
      call test_session(c_checkpoint_test, checkpoint%handle, done, status, message)
   end subroutine knarr_test

   ! 'needed' says whether a checkpoint should be written now. To be asked after each step of the program.
   subroutine knarr_need(checkpoint, needed, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      logical, intent(out) :: needed
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call test_session(c_checkpoint_need, checkpoint%handle, needed, status, message)
   end subroutine knarr_need

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
      text = printed(c_checkpoint_warnings, checkpoint%handle)
   end function knarr_warnings

   ! Waits for the step under way, says what became of it, and ends 'checkpoint'.
   subroutine knarr_close_checkpoints(checkpoint, status, message)
      type(knarr_checkpoint), intent(inout) :: checkpoint
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call close_session(c_checkpoint_close, checkpoint%handle, status, message)
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

   ! 'parts' are extents in front of those of the array, which its elements are made of.
   subroutine put(checkpoint, name, source, dtype, parts, shape, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      type(c_ptr), intent(in) :: source
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: parts(:), shape(:)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      character(:), allocatable :: why
      integer(c_size_t), allocatable :: count(:), whole(:), from(:)
      integer(c_int) :: done
      why = ''
      if (present(start)) then
         if (size(start) /= size(shape)) why = 'knarr_put: "global_shape" and "start" have other dimensions than the array'
         if (.not. present(global_shape)) why = 'knarr_put: "start" needs the "global_shape" in which it is'
         allocate (from, source=extents([0*parts, int(start, c_size_t) - 1]))
      end if
      if (present(global_shape)) then
         if (size(global_shape) /= size(shape)) why = &
            'knarr_put: "global_shape" and "start" have other dimensions than the array'
         allocate (whole, source=extents([parts, int(global_shape, c_size_t)]))
      end if
      if (why /= '') then
         ! A step that lacks an array cannot be committed: one that is nowhere is refused.
         done = c_checkpoint_put(checkpoint%handle, to_c(name), c_null_ptr, dtype, 1_c_int32_t, [1_c_size_t])
         call refuse(why, status, message)
         return
      end if
      allocate (count, source=extents([parts, shape]))
      done = c_checkpoint_put(checkpoint%handle, to_c(name), source, dtype, size(count, kind=c_int32_t), count, whole, from)
      call finish(done, status, message)
   end subroutine put

   ! As for put.
   subroutine read(restart, name, target, dtype, parts, shape, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      type(c_ptr), intent(in) :: target
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: parts(:), shape(:)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_size_t), allocatable :: count(:), from(:)
      integer(c_int) :: done
      if (present(start)) then
         if (size(start) /= size(shape)) then
            call refuse('knarr_read_array: "start" has other dimensions than the array', status, message)
            return
         end if
         allocate (from, source=extents([0*parts, int(start, c_size_t) - 1]))
      end if
      allocate (count, source=extents([parts, shape]))
      done = c_restart_read(restart%handle, to_c(name), target, dtype, size(count, kind=c_int32_t), count, from)
      call finish(done, status, message)
   end subroutine read

   !each number complex logical
   subroutine put_{kind}(checkpoint, name, array, global_shape, start, status, message)
      type(knarr_checkpoint), intent(in) :: checkpoint
      character(*), intent(in) :: name
      {type}, intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(checkpoint, name, c_loc(array), {dtype}, [integer(c_size_t) :: {parts}], shape(array, kind=c_size_t), &
         global_shape, start, status, message)
   end subroutine put_{kind}

   subroutine read_{kind}(restart, name, array, start, status, message)
      type(knarr_restart), intent(in) :: restart
      character(*), intent(in) :: name
      {type}, intent(inout), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call read(restart, name, c_loc(array), {dtype}, [integer(c_size_t) :: {parts}], shape(array, kind=c_size_t), start, &
         status, message)
   end subroutine read_{kind}

   !end each
end module knarr_checkpoints
