! libburst for Fortran, by ISO_C_BINDING: see burst.h and libburst(3). Compile this
! file with the program: modules of compilers do not go together.
module burst
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_size_t, c_char, c_ptr, c_null_char, c_associated, c_f_pointer
  implicit none
  private

  integer, parameter, public :: burst_ok = 0, burst_checkpoint = 1, burst_stop = 2
  integer, parameter, public :: burst_enotasked = -1, burst_ebusy = -2, burst_elate = -3, burst_enotbegun = -4, &
       burst_eempty = -5, burst_etoolong = -6, burst_elost = -7, burst_erefused = -8, burst_esystem = -9, burst_esilent = -10
  integer, parameter, public :: burst_path_max = 4096

  public :: burst_init, burst_connected, burst_progress, burst_should_checkpoint, burst_want_checkpoint, burst_checkpoint_begin, &
       burst_checkpoint_commit, burst_checkpoint_abort, burst_restart_path, burst_finalize, burst_strerror

  interface
     integer(c_int) function burst_init() bind(c, name='burst_init')
       import :: c_int
     end function burst_init

     integer(c_int) function burst_connected() bind(c, name='burst_connected')
       import :: c_int
     end function burst_connected

     subroutine burst_progress(iteration, total) bind(c, name='burst_progress')
       import :: c_int64_t
       integer(c_int64_t), value :: iteration, total
     end subroutine burst_progress

     integer(c_int) function burst_should_checkpoint() bind(c, name='burst_should_checkpoint')
       import :: c_int
     end function burst_should_checkpoint

     integer(c_int) function burst_want_checkpoint() bind(c, name='burst_want_checkpoint')
       import :: c_int
     end function burst_want_checkpoint

     integer(c_int) function burst_checkpoint_commit() bind(c, name='burst_checkpoint_commit')
       import :: c_int
     end function burst_checkpoint_commit

     integer(c_int) function burst_checkpoint_abort() bind(c, name='burst_checkpoint_abort')
       import :: c_int
     end function burst_checkpoint_abort

     subroutine burst_finalize() bind(c, name='burst_finalize')
     end subroutine burst_finalize

     integer(c_int) function c_begin(folder, room) bind(c, name='burst_checkpoint_begin')
       import :: c_int, c_char, c_size_t
       character(kind=c_char), intent(out) :: folder(*)
       integer(c_size_t), value :: room
     end function c_begin

     type(c_ptr) function c_restart_path() bind(c, name='burst_restart_path')
       import :: c_ptr
     end function c_restart_path

     type(c_ptr) function c_strerror(code) bind(c, name='burst_strerror')
       import :: c_ptr, c_int
       integer(c_int), value :: code
     end function c_strerror

     integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
       import :: c_ptr, c_size_t
       type(c_ptr), value :: text
     end function c_strlen
  end interface

contains

  ! burst_checkpoint_begin gives the folder, with blanks behind it.
  integer(c_int) function burst_checkpoint_begin(folder) result(code)
    character(len=*), intent(out) :: folder
    character(kind=c_char) :: text(len(folder) + 1)
    integer :: i
    folder = ' '
    code = c_begin(text, int(size(text), c_size_t))
    if (code /= burst_ok) return
    do i = 1, len(folder)
       if (text(i) == c_null_char) exit
       folder(i:i) = text(i)
    end do
  end function burst_checkpoint_begin

  ! burst_restart_path is empty, of length 0, where there is no checkpoint.
  function burst_restart_path() result(path)
    character(len=:), allocatable :: path
    path = text_of(c_restart_path())
  end function burst_restart_path

  function burst_strerror(code) result(text)
    integer(c_int), intent(in) :: code
    character(len=:), allocatable :: text
    text = text_of(c_strerror(code))
  end function burst_strerror

  function text_of(from) result(text)
    type(c_ptr), intent(in) :: from
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i, n
    n = 0
    if (c_associated(from)) n = int(c_strlen(from))
    allocate (character(len=n) :: text)
    if (n == 0) return
    call c_f_pointer(from, letters, [n])
    do i = 1, n
       text(i:i) = letters(i)
    end do
  end function text_of
end module burst
