package methods

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxLibPrograms is how many processes of a step may be connected: a rank for each
	// of the largest host's processors, and more.
	maxLibPrograms = 1024
	// libAnswerTime is how long a program may leave an answer in its socket.
	libAnswerTime = time.Second
	libLeft       = "no process of the step is connected any more"
)

// libLeftTime is how long nobody is connected any more before the user is told so: a
// step's last act. A variable for the tests.
var libLeftTime = time.Minute

// libWantTime is how long a program that wants a checkpoint waits for the order; less
// than what the library waits for an answer.
const libWantTime = 10 * time.Second

// libServer is this process's side of one step's socket.
type libServer struct {
	place    *libPlace
	page     *libPage
	listener *net.UnixListener
	say      func(format string, args ...any)
	look     func(folder string) error // at what was written; it may hang
	wg       sync.WaitGroup
	wanted   chan struct{} // has a value when a program wants a checkpoint
	over     chan struct{} // closed by close

	mu       sync.Mutex
	asked    *libOrder     // nil: nothing is asked for
	came     chan struct{} // closed by the next order
	hears    bool          // somebody hears what programs want
	programs map[*libProgram]bool
	heard    bool // a program has said hello
	strange  int  // the version of one that speaks another; 0: none does
	looking  int  // who looks at what was written
	left     *time.Timer
	closed   bool
	patience time.Duration // of a program that wants a checkpoint
}

// libProgram is a process that is connected.
type libProgram struct {
	conn  *net.UnixConn
	knows bool // it has said hello
	late  bool // what it had begun was withdrawn
}

func listenLib(say func(format string, args ...any)) (*libServer, error) {
	page, err := newLibPage()
	if err != nil {
		return nil, err
	}
	place, err := newLibPlace()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a folder for the socket: %w", err), page.close())
	}
	s := &libServer{place: place, page: page, say: say, look: hasContent, programs: map[*libProgram]bool{},
		patience: libWantTime, wanted: make(chan struct{}, 1), over: make(chan struct{}), came: make(chan struct{})}
	s.left = time.AfterFunc(libLeftTime, s.sayLeft)
	s.left.Stop() // nobody has come yet
	s.listener, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.path(), Net: "unixpacket"})
	if err != nil {
		return nil, errors.Join(err, place.remove(), page.close())
	}
	s.wg.Go(s.accept)
	return s, nil
}

func (s *libServer) path() string { return filepath.Join(s.place.dir, libSocketName) }

// close ends all connections: the library is idle from then on.
func (s *libServer) close() error {
	s.mu.Lock()
	s.closed = true
	close(s.over)
	s.left.Stop()
	for p := range s.programs {
		p.conn.Close() // what it fails with says nothing
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.wg.Wait()
	return errors.Join(err, s.place.remove(), s.page.close())
}

func (s *libServer) iteration() (now, of int64) { return s.page.told() }

// wishes has a value when a program wants a checkpoint.
func (s *libServer) wishes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hears = true
	return s.wanted
}

func (s *libServer) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of too many open files, as a rule
			time.Sleep(100 * time.Millisecond)
			continue
		}
		p := &libProgram{conn: conn}
		if !isOwnUser(conn) || !s.enter(p) {
			conn.Close() // likewise
			continue
		}
		s.wg.Go(func() { s.serve(p) })
	}
}

// isOwnUser looks who connected: the folder is closed to others, unless somebody has
// opened it.
func isOwnUser(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	own := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		own = err == nil && int(cred.Uid) == os.Geteuid()
	})
	return err == nil && own
}

func (s *libServer) enter(p *libProgram) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.programs) >= maxLibPrograms {
		return false
	}
	s.programs[p] = true
	return true
}

// serve answers a program until it goes, or says what is none of libburst's.
func (s *libServer) serve(p *libProgram) {
	defer s.gone(p)
	packet := make([]byte, maxLibCall)
	for {
		n, _, flags, _, err := p.conn.ReadMsgUnix(packet, nil)
		if err != nil || n == 0 || flags&unix.MSG_TRUNC != 0 {
			return
		}
		c, err := parseLibCall(packet[:n])
		if err != nil || p.knows == (c.word == "hello") {
			return
		}
		p.conn.SetWriteDeadline(time.Now().Add(libAnswerTime)) // fails only where it is closed
		if _, _, err := p.conn.WriteMsgUnix(s.answer(p, c)); err != nil || !p.knows {
			return
		}
	}
}

// answer is a packet, and the file that goes with it.
func (s *libServer) answer(p *libProgram, c libCall) (text, rights []byte, to *net.UnixAddr) {
	switch c.word {
	case "hello":
		if c.number != libVersion {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.strange = c.number
			return []byte("no version"), nil, nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		p.knows, s.heard = true, true
		return []byte("welcome"), unix.UnixRights(int(s.page.file.Fd())), nil
	case "begin":
		return []byte(s.begin(p, c.number)), nil, nil
	case "commit":
		return []byte(s.commit(p)), nil, nil
	case "want":
		return []byte(s.want()), nil, nil
	}
	return []byte(s.abort(p)), nil, nil
}

// gone forgets a program, and what it was writing.
func (s *libServer) gone(p *libProgram) {
	p.conn.Close() // what it fails with says nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.programs, p)
	if s.asked != nil && s.asked.writer == p {
		s.end(errLibGone)
	}
	if p.knows && len(s.programs) == 0 && !s.closed {
		s.left.Reset(libLeftTime)
	}
}

// sayLeft tells that no checkpoints are to be had, unless somebody has come since.
func (s *libServer) sayLeft() {
	s.mu.Lock()
	none := len(s.programs) == 0 && !s.closed
	s.mu.Unlock()
	if none && s.say != nil {
		s.say("libburst: %s, and the step runs: until one calls burst_init, no checkpoint is taken", libLeft)
	}
}
