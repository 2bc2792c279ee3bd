! What the modules of Knarr have in common: text, extents and errors between C and Fortran, and the calls that sessions
! share, which are checkpoints and outputs.
module knarr_support
   use, intrinsic :: iso_c_binding
   use knarr_c, only: knarr_ok, knarr_usage, c_last_error, c_strlen
   implicit none
   private
   public :: knarr_text, to_c, from_c, finish, refuse, extents
   public :: knarr_comm, c_open, c_call, c_test, c_print, open_session, test_session, close_session, printed

   ! The ranks of a program: knarr_ranks() of module knarr_mpi makes one.
   type, bind(c) :: knarr_comm
      integer(c_int32_t) :: version = 0, rank = 0, size = 1, node = 0
      type(c_ptr) :: context = c_null_ptr
      type(c_funptr) :: send = c_null_funptr, receive = c_null_funptr, message = c_null_funptr
      type(c_funptr) :: end = c_null_funptr, abort = c_null_funptr
   end type knarr_comm

   abstract interface
      function c_open(path, options, comm, session) bind(c) result(status)
         import :: c_char, c_ptr, c_int
         character(kind=c_char), intent(in) :: path(*), options(*)
         type(c_ptr), value :: comm
         type(c_ptr), intent(out) :: session
         integer(c_int) :: status
      end function c_open

      function c_call(session) bind(c) result(status)
         import :: c_ptr, c_int
         type(c_ptr), value :: session
         integer(c_int) :: status
      end function c_call

      function c_test(session, done) bind(c) result(status)
         import :: c_ptr, c_int32_t, c_int
         type(c_ptr), value :: session
         integer(c_int32_t), intent(out) :: done
         integer(c_int) :: status
      end function c_test

      function c_print(session, text, capacity, length) bind(c) result(status)
         import :: c_ptr, c_char, c_size_t, c_int
         type(c_ptr), value :: session
         character(kind=c_char), intent(out) :: text(*)
         integer(c_size_t), value :: capacity
         integer(c_size_t), intent(out) :: length
         integer(c_int) :: status
      end function c_print
   end interface

contains

   ! The text of a field.
   pure function knarr_text(field) result(text)
      character(kind=c_char), intent(in) :: field(:)
      character(:), allocatable :: text
      integer :: i, length
      length = size(field)
      do i = 1, size(field)
         if (field(i) == c_null_char) then
            length = i - 1
            exit
         end if
      end do
      allocate (character(length) :: text)
      do i = 1, length
         text(i:i) = field(i)
      end do
   end function knarr_text

   pure function to_c(text) result(words)
      character(*), intent(in) :: text
      character(kind=c_char) :: words(len_trim(text) + 1)
      integer :: i
      do i = 1, len_trim(text)
         words(i) = text(i:i)
      end do
      words(size(words)) = c_null_char
   end function to_c

   function from_c(pointer) result(text)
      type(c_ptr), intent(in) :: pointer
      character(:), allocatable :: text
      character(kind=c_char), pointer :: field(:)
      call c_f_pointer(pointer, field, [c_strlen(pointer)])
      text = knarr_text(field)
   end function from_c

   ! Gives the caller status and message, or stops the program.
   subroutine finish(done, status, message)
      integer(c_int), intent(in) :: done
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      character(:), allocatable :: text
      text = ''
      if (done /= knarr_ok) text = from_c(c_last_error())
      if (present(message)) message = text
      if (present(status)) then
         status = done
      else if (done /= knarr_ok) then
         error stop text
      end if
   end subroutine finish

   ! Refuses a call with a mistake that C would not see.
   subroutine refuse(why, status, message)
      character(*), intent(in) :: why
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      if (present(message)) message = why
      if (.not. present(status)) error stop why
      status = knarr_usage
   end subroutine refuse

   ! Opens a session on 'path' with the ranks of 'comm', or for one process.
   subroutine open_session(open, session, path, options, comm, status, message)
      procedure(c_open) :: open
      type(c_ptr), intent(out) :: session
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
      call finish(open(to_c(path), to_c(words), ranks, session), status, message)
   end subroutine open_session

   ! 'done' becomes what 'test' says of a session.
   subroutine test_session(test, session, done, status, message)
      procedure(c_test) :: test
      type(c_ptr), intent(in) :: session
      logical, intent(out) :: done
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      integer(c_int32_t) :: is_done
      integer(c_int) :: result
      is_done = 0
      result = test(session, is_done)
      done = is_done /= 0
      call finish(result, status, message)
   end subroutine test_session

   ! Ends a session, whatever becomes of it.
   subroutine close_session(close, session, status, message)
      procedure(c_call) :: close
      type(c_ptr), intent(inout) :: session
      integer(c_int), intent(out), optional :: status
      character(*), intent(out), optional :: message
      type(c_ptr) :: handle
      handle = session
      session = c_null_ptr
      call finish(close(handle), status, message)
   end subroutine close_session

   ! What 'print' writes of a session.
   function printed(print, session) result(text)
      procedure(c_print) :: print
      type(c_ptr), intent(in) :: session
      character(:), allocatable :: text
      character(kind=c_char) :: buffer(65536)
      integer(c_size_t) :: length
      call finish(print(session, buffer, size(buffer, kind=c_size_t), length))
      text = knarr_text(buffer)
   end function printed

   ! Extents in the order of C.
   pure function extents(shape) result(turned)
      integer(c_size_t), intent(in) :: shape(:)
      integer(c_size_t) :: turned(size(shape))
      turned = shape(size(shape):1:-1)
   end function extents

end module knarr_support
