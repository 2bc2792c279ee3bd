! Asks for a file, opens it, and removes it.
program fortran
  implicit none
  character(len=200) :: name
  logical :: is_there
  integer :: reason
  character(len=3) :: head
  call get_command_argument(1, name)
  inquire(file=trim(name), exist=is_there)
  print *, 'there', is_there
  open(unit=10, file=trim(name), status='old', access='stream', iostat=reason)
  print *, 'open', reason
  read(10, iostat=reason) head
  print *, 'read', reason
  close(10, status='delete', iostat=reason)
  print *, 'delete', reason
  inquire(file=trim(name), exist=is_there)
  print *, 'there', is_there
end program
