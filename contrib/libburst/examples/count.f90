! count.c in Fortran:
!
!   gfortran $(pkg-config --variable=includedir burst)/burst.f90 count.f90 \
!     $(pkg-config --variable=libdir burst)/libburst.a
program count
  use, intrinsic :: iso_c_binding, only: c_int64_t
  use, intrinsic :: iso_fortran_env, only: error_unit
  use burst
  implicit none
  integer(c_int64_t) :: at, total, phase
  real(kind(1d0)) :: x
  integer :: code
  character(len=32) :: word

  at = 0
  x = 0.5d0
  total = 1000
  phase = 0
  if (command_argument_count() > 0) then
     call get_command_argument(1, word)
     read (word, *) total
  end if
  if (command_argument_count() > 1) then
     call get_command_argument(2, word)
     read (word, *) phase
  end if
  code = burst_init()
  if (code < 0) write (error_unit, '(2a)') 'count: it runs on without Burst: ', burst_strerror(code)
  if (len(burst_restart_path()) > 0) call load(burst_restart_path())
  do while (at < total)
     at = at + 1
     x = 3.9d0 * x * (1 - x)
     call burst_progress(at, total)
     if (phase > 0 .and. at < total) then
        if (mod(at, phase) == 0) code = burst_want_checkpoint() ! Burst asks now: the next line hears it
     end if
     if (burst_should_checkpoint() /= 0) then
        if (checkpoint() == burst_stop) then
           call burst_finalize()
           stop 75
        end if
     end if
  end do
  call burst_finalize()
  write (*, '(a,i0,1x,es24.17)') 'done ', at, x

contains

  integer function checkpoint() result(code)
    character(len=burst_path_max) :: folder
    integer :: unit, status
    code = burst_checkpoint_begin(folder)
    if (code == burst_ok) then
       open (newunit=unit, file=trim(folder)//'/state', form='unformatted', status='replace', action='write', iostat=status)
       if (status == 0) write (unit, iostat=status) at, x
       if (status == 0) close (unit, iostat=status)
       if (status == 0) then
          code = burst_checkpoint_commit()
       else
          code = burst_checkpoint_abort()
       end if
    end if
    if (code < 0) write (error_unit, '(2a)') 'count: no checkpoint: ', burst_strerror(code)
  end function checkpoint

  subroutine load(folder)
    character(len=*), intent(in) :: folder
    integer :: unit
    open (newunit=unit, file=folder//'/state', form='unformatted', status='old', action='read')
    read (unit) at, x
    close (unit)
  end subroutine load
end program count
