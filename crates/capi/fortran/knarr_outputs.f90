! Files that a program writes from all its ranks: the functions knarr_output_... of knarr.h. As in module knarr, dimensions are
! turned round on the way, calls have an optional 'status' and 'message', and an error without 'status' stops the program.
! Subscripts count from 1. A program with MPI compiles knarr_mpi.f90 and knarr_mpi.c, too.
module knarr_outputs
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
   use knarr_c, only: knarr_int8, knarr_int16, knarr_int32, knarr_int64, knarr_float32, knarr_float64, knarr_unlimited
   use knarr_checkpoints, only: knarr_comm
   use knarr_support
   implicit none
   private

   public :: knarr_unlimited, knarr_comm, knarr_int8, knarr_int16, knarr_int32, knarr_int64, knarr_float32, knarr_float64

   ! A file that a program writes. Create it with knarr_create_output, close it with knarr_close_output.
   type, public :: knarr_output
      private
      type(c_ptr) :: handle = c_null_ptr
   end type knarr_output

   public :: knarr_create_output, knarr_def_dim, knarr_def_var, knarr_put_att, knarr_put_var, knarr_end_step, &
      knarr_commit_output, knarr_test_output, knarr_wait_output, knarr_output_notes, knarr_close_output

   ! call knarr_put_att(output, variable, name, value [, status, message])
   ! Sets an attribute of a variable, or with an empty 'variable' of the file: text, a number, or an array of numbers.
   interface knarr_put_att
      module procedure att_text, att_int8, att_int16, att_int32, att_int64, att_real32, att_real64
   end interface knarr_put_att

   ! call knarr_put_var(output, name, array [, start, status, message])
   ! Copies an array: the region of its shape of the variable that begins at the subscripts 'start', ones if they are left
   ! out. A record has an extent of 1 along the dimension that grows: array(1:columns, 1:rows, 1:1).
   interface knarr_put_var
      module procedure put_int8, put_int16, put_int32, put_int64, put_real32, put_real64
   end interface knarr_put_var

   interface
      function c_output_create(path, options, comm, output) bind(c, name="knarr_output_create") result(status)
         import :: c_char, c_ptr, c_int
         character(kind=c_char), intent(in) :: path(*), options(*)
         type(c_ptr), value :: comm
         type(c_ptr), intent(out) :: output
         integer(c_int) :: status
      end function c_output_create

      function c_output_def_dim(output, name, length) bind(c, name="knarr_output_def_dim") result(status)
         import :: c_ptr, c_char, c_size_t, c_int
         type(c_ptr), value :: output
         character(kind=c_char), intent(in) :: name(*)
         integer(c_size_t), value :: length
         integer(c_int) :: status
      end function c_output_def_dim

      function c_output_def_var(output, name, dtype, rank, dimensions, wishes) &
         bind(c, name="knarr_output_def_var") result(status)
         import :: c_ptr, c_char, c_int32_t, c_int
         type(c_ptr), value :: output
         character(kind=c_char), intent(in) :: name(*), wishes(*)
         integer(c_int32_t), value :: dtype, rank
         type(c_ptr), intent(in) :: dimensions(*)
         integer(c_int) :: status
      end function c_output_def_var

      function c_output_put_att_text(output, variable, name, value) &
         bind(c, name="knarr_output_put_att_text") result(status)
         import :: c_ptr, c_char, c_int
         type(c_ptr), value :: output
         character(kind=c_char), intent(in), optional :: variable(*)
         character(kind=c_char), intent(in) :: name(*), value(*)
         integer(c_int) :: status
      end function c_output_put_att_text

      function c_output_put_att(output, variable, name, dtype, count, values) &
         bind(c, name="knarr_output_put_att") result(status)
         import :: c_ptr, c_char, c_int32_t, c_size_t, c_int
         type(c_ptr), value :: output, values
         character(kind=c_char), intent(in), optional :: variable(*)
         character(kind=c_char), intent(in) :: name(*)
         integer(c_int32_t), value :: dtype
         integer(c_size_t), value :: count
         integer(c_int) :: status
      end function c_output_put_att

      function c_output_put(output, name, source, dtype, rank, count, start) bind(c, name="knarr_output_put") result(status)
         import :: c_ptr, c_char, c_int32_t, c_size_t, c_int
         type(c_ptr), value :: output, source
         character(kind=c_char), intent(in) :: name(*)
         integer(c_int32_t), value :: dtype, rank
         integer(c_size_t), intent(in) :: count(*)
         integer(c_size_t), intent(in), optional :: start(*)
         integer(c_int) :: status
      end function c_output_put

      function c_output_end_step(output) bind(c, name="knarr_output_end_step") result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: output
         integer(c_int) :: status
      end function c_output_end_step

      function c_output_commit(output) bind(c, name="knarr_output_commit") result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: output
         integer(c_int) :: status
      end function c_output_commit

      function c_output_test(output, done) bind(c, name="knarr_output_test") result(status)
         import :: c_ptr, c_int32_t, c_int
         type(c_ptr), value :: output
         integer(c_int32_t), intent(out) :: done
         integer(c_int) :: status
      end function c_output_test

      function c_output_wait(output) bind(c, name="knarr_output_wait") result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: output
         integer(c_int) :: status
      end function c_output_wait

      function c_output_notes(output, text, capacity, length) bind(c, name="knarr_output_notes") result(status)
         import :: c_ptr, c_char, c_size_t, c_int
         type(c_ptr), value :: output
         character(kind=c_char), intent(out) :: text(*)
         integer(c_size_t), value :: capacity
         integer(c_size_t), intent(out) :: length
         integer(c_int) :: status
      end function c_output_notes

      function c_output_close(output) bind(c, name="knarr_output_close") result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: output
         integer(c_int) :: status
      end function c_output_close
   end interface

contains

   ! Begins a file that all ranks write together, with options such as 'goal=ratio replace=yes', which knarr.h describes.
   ! Collective, as are knarr_end_step, knarr_commit_output, knarr_test_output, knarr_wait_output and knarr_close_output.
   ! Without 'comm' the program is one process.
   subroutine knarr_create_output(output, path, options, comm, status, message)
      type(knarr_output), intent(out) :: output
      character(*), intent(in) :: path
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
      call finish(c_output_create(to_c(path), to_c(words), ranks, output%handle), status, message)
   end subroutine knarr_create_output

   ! Defines a dimension. With the length knarr_unlimited it grows with what is put along it. Not collective, but all ranks
   ! define the same things in the same order.
   subroutine knarr_def_dim(output, name, length, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      integer, intent(in) :: length
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      ! A negative length is one that no array has.
      call finish(c_output_def_dim(output%handle, to_c(name), int(length, c_size_t)), status, message)
   end subroutine knarr_def_dim

   ! Defines a variable of a type such as knarr_float64 along 'dimensions', the fastest first, which are defined. 'wishes' are
   ! words such as 'max_abs_error=0.01'. As for knarr_def_dim.
   subroutine knarr_def_var(output, name, dtype, dimensions, wishes, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name, dimensions(:)
      integer(c_int32_t), intent(in) :: dtype
      character(*), intent(in), optional :: wishes
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      character(kind=c_char), target :: names(len(dimensions) + 1, size(dimensions))
      type(c_ptr) :: turned(size(dimensions))
      character(:), allocatable :: words
      integer :: axis
      names = c_null_char
      do axis = 1, size(dimensions)
         names(:len_trim(dimensions(axis)) + 1, axis) = to_c(dimensions(axis))
         turned(size(dimensions) - axis + 1) = c_loc(names(1, axis))
      end do
      words = ''
      if (present(wishes)) words = wishes
      call finish(c_output_def_var(output%handle, to_c(name), dtype, size(dimensions, kind=c_int32_t), turned, to_c(words)), &
         status, message)
   end subroutine knarr_def_var

   ! Ends a step: what is put afterwards counts where it overlaps with what was put before.
   subroutine knarr_end_step(output, status, message)
      type(knarr_output), intent(in) :: output
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_output_end_step(output%handle), status, message)
   end subroutine knarr_end_step

   ! Hands all values over; the file is made in the background.
   subroutine knarr_commit_output(output, status, message)
      type(knarr_output), intent(in) :: output
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_output_commit(output%handle), status, message)
   end subroutine knarr_commit_output

   ! 'done' says whether the file is complete.
   subroutine knarr_test_output(output, done, status, message)
      type(knarr_output), intent(in) :: output
      logical, intent(out) :: done
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int32_t) :: is_done
      integer(c_int) :: result
      is_done = 0
      result = c_output_test(output%handle, is_done)
      done = is_done /= 0
      call finish(result, status, message)
   end subroutine knarr_test_output

   ! Waits until the file is complete.
   subroutine knarr_wait_output(output, status, message)
      type(knarr_output), intent(in) :: output
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call finish(c_output_wait(output%handle), status, message)
   end subroutine knarr_wait_output

   ! Notes on the file that is complete; empty if there are none.
   function knarr_output_notes(output) result(text)
      type(knarr_output), intent(in) :: output
      character(:), allocatable :: text
      character(kind=c_char) :: buffer(65536)
      integer(c_size_t) :: length
      call finish(c_output_notes(output%handle, buffer, size(buffer, kind=c_size_t), length))
      text = knarr_text(buffer)
   end function knarr_output_notes

   ! Commits the file unless that was done, waits until it is complete, and ends 'output'.
   subroutine knarr_close_output(output, status, message)
      type(knarr_output), intent(inout) :: output
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      type(c_ptr) :: handle
      handle = output%handle
      output%handle = c_null_ptr
      call finish(c_output_close(handle), status, message)
   end subroutine knarr_close_output

   subroutine put(output, name, source, dtype, count, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      type(c_ptr), intent(in) :: source
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: count(:)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_size_t) :: from(size(count))
      integer(c_int) :: done
      from = 0
      if (present(start)) then
         if (size(start) /= size(count)) then
            ! A file that lacks an array is not written: one of no type is refused.
            done = c_output_put(output%handle, to_c(name), c_null_ptr, 0_c_int32_t, 0_c_int32_t, from)
            if (present(message)) message = 'knarr_put_var: "start" has other dimensions than the array'
            if (.not. present(status)) error stop 'knarr_put_var: "start" has other dimensions than the array'
            status = 1
            return
         end if
         from = start - 1
      end if
      done = c_output_put(output%handle, to_c(name), source, dtype, size(count, kind=c_int32_t), extents(count), extents(from))
      call finish(done, status, message)
   end subroutine put

   subroutine put_att(output, variable, name, values, dtype, count, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      type(c_ptr), intent(in) :: values
      integer(c_int32_t), intent(in) :: dtype
      integer(c_size_t), intent(in) :: count
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int) :: done
      if (len_trim(variable) == 0) then
         done = c_output_put_att(output%handle, name=to_c(name), dtype=dtype, count=count, values=values)
      else
         done = c_output_put_att(output%handle, to_c(variable), to_c(name), dtype, count, values)
      end if
      call finish(done, status, message)
   end subroutine put_att

   subroutine att_text(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name, value
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int) :: done
      if (len_trim(variable) == 0) then
         done = c_output_put_att_text(output%handle, name=to_c(name), value=to_c(value))
      else
         done = c_output_put_att_text(output%handle, to_c(variable), to_c(name), to_c(value))
      end if
      call finish(done, status, message)
   end subroutine att_text

   subroutine att_int8(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      integer(int8), intent(in), target, contiguous :: value(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put_att(output, variable, name, c_loc(value), knarr_int8, size(value, kind=c_size_t), status, message)
   end subroutine att_int8

   subroutine att_int16(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      integer(int16), intent(in), target, contiguous :: value(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put_att(output, variable, name, c_loc(value), knarr_int16, size(value, kind=c_size_t), status, message)
   end subroutine att_int16

   subroutine att_int32(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      integer(int32), intent(in), target, contiguous :: value(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put_att(output, variable, name, c_loc(value), knarr_int32, size(value, kind=c_size_t), status, message)
   end subroutine att_int32

   subroutine att_int64(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      integer(int64), intent(in), target, contiguous :: value(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put_att(output, variable, name, c_loc(value), knarr_int64, size(value, kind=c_size_t), status, message)
   end subroutine att_int64

   subroutine att_real32(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      real(real32), intent(in), target, contiguous :: value(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put_att(output, variable, name, c_loc(value), knarr_float32, size(value, kind=c_size_t), status, message)
   end subroutine att_real32

   subroutine att_real64(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      real(real64), intent(in), target, contiguous :: value(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put_att(output, variable, name, c_loc(value), knarr_float64, size(value, kind=c_size_t), status, message)
   end subroutine att_real64

   subroutine put_int8(output, name, array, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      integer(int8), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(output, name, c_loc(array), knarr_int8, shape(array, kind=c_size_t), start, status, message)
   end subroutine put_int8

   subroutine put_int16(output, name, array, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      integer(int16), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(output, name, c_loc(array), knarr_int16, shape(array, kind=c_size_t), start, status, message)
   end subroutine put_int16

   subroutine put_int32(output, name, array, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      integer(int32), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(output, name, c_loc(array), knarr_int32, shape(array, kind=c_size_t), start, status, message)
   end subroutine put_int32

   subroutine put_int64(output, name, array, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      integer(int64), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(output, name, c_loc(array), knarr_int64, shape(array, kind=c_size_t), start, status, message)
   end subroutine put_int64

   subroutine put_real32(output, name, array, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      real(real32), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(output, name, c_loc(array), knarr_float32, shape(array, kind=c_size_t), start, status, message)
   end subroutine put_real32

   subroutine put_real64(output, name, array, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      real(real64), intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(output, name, c_loc(array), knarr_float64, shape(array, kind=c_size_t), start, status, message)
   end subroutine put_real64

end module knarr_outputs
