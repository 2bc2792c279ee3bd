! Files that a program writes from all its ranks: the functions knarr_output_... of knarr.h. As in module knarr, dimensions are
! turned round on the way, calls have an optional 'status' and 'message', and an error without 'status' stops the program.
! Subscripts count from 1. A program with MPI compiles knarr_mpi.f90 and knarr_mpi.c, too.
module knarr_outputs
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
   use knarr_c, only: knarr_int8, knarr_int16, knarr_int32, knarr_int64, knarr_float32, knarr_float64, knarr_unlimited
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
      module procedure att_text
      !each number
      module procedure att_{kind}
      !end each
   end interface knarr_put_att

   ! call knarr_put_var(output, name, array [, start, status, message])
   ! Copies an array: the region of its shape of the variable that begins at the subscripts 'start', ones if they are left
   ! out. A record has an extent of 1 along the dimension that grows: array(1:columns, 1:rows, 1:1).
   interface knarr_put_var
      !each number
      module procedure put_{kind}
      !end each
   end interface knarr_put_var

   interface
      !like c_open output_create
      !like c_call output_end_step output_commit output_wait output_close
      !like c_test output_test
      !like c_print output_notes
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

   end interface

contains

   ! Begins a file that all ranks write together, with options such as 'goal=ratio replace=yes', which knarr.h describes.
   ! Collective, as are knarr_end_step, knarr_commit_output, knarr_test_output, knarr_wait_output and knarr_close_output.
   ! Without 'comm' the program is one process.
   subroutine knarr_create_output(output, path, options, comm, status, message)
      type(knarr_output), intent(out) :: output
      character(*), intent(in) :: path
      character(*), intent(in), optional :: options
      type(knarr_comm), intent(in), optional :: comm
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call open_session(c_output_create, output%handle, path, options, comm, status, message)
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
      call test_session(c_output_test, output%handle, done, status, message)
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
      text = printed(c_output_notes, output%handle)
   end function knarr_output_notes

   ! Commits the file unless that was done, waits until it is complete, and ends 'output'.
   subroutine knarr_close_output(output, status, message)
      type(knarr_output), intent(inout) :: output
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call close_session(c_output_close, output%handle, status, message)
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
      integer(c_size_t), allocatable :: from(:)
      integer(c_int) :: done
      if (present(start)) then
         if (size(start) /= size(count)) then
            ! A file that lacks an array is not written: one of no type is refused.
            done = c_output_put(output%handle, to_c(name), c_null_ptr, 0_c_int32_t, 0_c_int32_t, count)
            call refuse('knarr_put_var: "start" has other dimensions than the array', status, message)
            return
         end if
         allocate (from, source=extents(int(start, c_size_t) - 1))
      end if
      done = c_output_put(output%handle, to_c(name), source, dtype, size(count, kind=c_int32_t), extents(count), from)
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

   !each number
   subroutine att_{kind}(output, variable, name, value, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: variable, name
      {type}, intent(in), target, contiguous :: value(..)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put_att(output, variable, name, c_loc(value), {dtype}, size(value, kind=c_size_t), status, message)
   end subroutine att_{kind}

   subroutine put_{kind}(output, name, array, start, status, message)
      type(knarr_output), intent(in) :: output
      character(*), intent(in) :: name
      {type}, intent(in), target, contiguous :: array(..)
      integer, intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      call put(output, name, c_loc(array), {dtype}, shape(array, kind=c_size_t), start, status, message)
   end subroutine put_{kind}

   !end each
end module knarr_outputs
