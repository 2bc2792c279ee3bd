! What the modules of Knarr have in common: text, extents and errors between C and Fortran.
module knarr_support
   use, intrinsic :: iso_c_binding
   use knarr_c, only: knarr_ok, c_last_error, c_strlen
   implicit none
   private
   public :: knarr_text, to_c, from_c, finish, extents

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

   ! Extents in the order of C.
   pure function extents(shape) result(turned)
      integer(c_size_t), intent(in) :: shape(:)
      integer(c_size_t) :: turned(size(shape))
      turned = shape(size(shape):1:-1)
   end function extents

end module knarr_support
