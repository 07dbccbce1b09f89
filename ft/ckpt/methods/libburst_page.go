package methods

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// libPage is the memory that is shared with the program: to look at it costs
// nothing. It is contrib/libburst/src/link.h's struct shared. The program may write
// anything anywhere in it; only what it tells of itself is read here.
//
// It is a file without a name that cannot shrink: a process that reads beyond the end of
// a file is killed.
type libPage struct {
	file *os.File

	mu   sync.Mutex
	text []byte // nil: closed
	last [2]int64
}

const (
	libPageSize  = 4096
	libMagic     = 0x54535242
	orderAt      = 64
	iterationAt  = 128
	totalAt      = 136
	pageSeals    = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	pageFileName = "burst-lib"
)

// Orders, as burst.h has them.
const (
	orderNone int32 = iota
	orderCheckpoint
	orderStop
)

func newLibPage() (*libPage, error) {
	// Newer kernels may want to be told that nothing in it is to be run; older ones do not know the word.
	fd, err := unix.MemfdCreate(pageFileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(pageFileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memory to share with the program (memfd_create, of Linux 3.17): %w", err)
	}
	p := &libPage{file: os.NewFile(uintptr(fd), pageFileName), last: [2]int64{-1, 0}}
	if err := p.make(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("memory to share with the program: %w", err), p.file.Close())
	}
	return p, nil
}

func (p *libPage) make(fd int) (err error) {
	if err := unix.Ftruncate(fd, libPageSize); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, pageSeals); err != nil {
		return err
	}
	if p.text, err = unix.Mmap(fd, 0, libPageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	atomic.StoreInt64(p.long(iterationAt), -1)
	atomic.StoreInt32(p.int(4), libVersion)
	atomic.StoreInt32(p.int(0), libMagic)
	return nil
}

func (p *libPage) int(at int) *int32  { return (*int32)(unsafe.Pointer(&p.text[at])) }
func (p *libPage) long(at int) *int64 { return (*int64)(unsafe.Pointer(&p.text[at])) }

// say has the program see the order.
func (p *libPage) say(order int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != nil {
		atomic.StoreInt32(p.int(orderAt), order)
	}
}

// told is how far the program says that it is: now is -1 if it has said nothing, or
// nonsense, of is 0 if it does not know. After close it is the last that was said.
func (p *libPage) told() (now, of int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look()
	return p.last[0], p.last[1]
}

func (p *libPage) look() {
	if p.text == nil {
		return
	}
	now, of := atomic.LoadInt64(p.long(iterationAt)), atomic.LoadInt64(p.long(totalAt))
	if now < 0 {
		now, of = -1, 0
	}
	if of < now {
		of = 0
	}
	p.last = [2]int64{now, of}
}

func (p *libPage) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == nil {
		return nil
	}
	p.look()
	text := p.text
	p.text = nil
	return errors.Join(unix.Munmap(text), p.file.Close())
}
