! Implosion in a box: R. Liska and B. Wendroff, SIAM J. Sci. Comput. 25 (2003), section 4.7.
subroutine qinit(meqn, mbc, mx, my, xlower, ylower, dx, dy, q, maux, aux)
  implicit none
  integer, intent(in) :: meqn, mbc, mx, my, maux
  real(kind=8), intent(in) :: xlower, ylower, dx, dy
  real(kind=8), intent(inout) :: q(meqn, 1-mbc:mx+mbc, 1-mbc:my+mbc)
  real(kind=8), intent(inout) :: aux(maux, 1-mbc:mx+mbc, 1-mbc:my+mbc)
  real(kind=8) :: gamma, density, pressure
  common /cparam/ gamma
  integer :: i, j
  do j = 1, my
     do i = 1, mx
        density = 1.d0
        pressure = 1.d0
        if (xlower + (i - 0.5d0) * dx + ylower + (j - 0.5d0) * dy < 0.15d0) then
           density = 0.125d0
           pressure = 0.14d0
        end if
        q(1, i, j) = density
        q(2:3, i, j) = 0.d0
        q(4, i, j) = pressure / (gamma - 1.d0)
     end do
  end do
end subroutine qinit
