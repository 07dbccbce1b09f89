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
)

// How an order ends without a checkpoint.
var (
	errLibWithdrawn = errors.New("the order was withdrawn")
	errLibGone      = errors.New("the program closed its connection before it committed")
	errLibAborted   = errors.New("the program could not write it")
	errLibEmpty     = errors.New("the program committed a checkpoint without content")
)

// libOrder is a checkpoint that is asked for.
//
//	asked --begin--> being written --commit--> kept
//	  |                |-- abort, nothing written, connection closed --> failed
//	  \----------------\-- withdrawn: the time is over, the step has ended
type libOrder struct {
	folder string
	stop   bool
	over   chan struct{} // closed when it is kept or has failed

	// After over, or withdraw:
	err       error
	iteration int64

	writer *libProgram // who writes it; nil: nobody yet
}

// libServer is this process's side of one step's socket.
type libServer struct {
	place    *libPlace
	page     *libPage
	listener *net.UnixListener
	wg       sync.WaitGroup

	mu       sync.Mutex
	asked    *libOrder // nil: nothing is asked for
	programs map[*libProgram]bool
	heard    bool // a program has said hello
	closed   bool
}

// libProgram is a process that is connected.
type libProgram struct {
	conn  *net.UnixConn
	knows bool // it has said hello
	late  bool // what it had begun was withdrawn
}

func listenLib() (*libServer, error) {
	page, err := newLibPage()
	if err != nil {
		return nil, err
	}
	place, err := newLibPlace()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a folder for the socket: %w", err), page.close())
	}
	s := &libServer{place: place, page: page, programs: map[*libProgram]bool{}}
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
	for p := range s.programs {
		p.conn.Close() // what it fails with says nothing
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.wg.Wait()
	return errors.Join(err, s.place.remove(), s.page.close())
}

func (s *libServer) iteration() (now, of int64) { return s.page.told() }

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
	}
	return []byte(s.abort(p)), nil, nil
}

func (s *libServer) begin(p *libProgram, room int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.asked
	switch {
	case o == nil:
		return "no unasked"
	case o.writer != nil:
		return "no busy"
	case len(o.folder)+1 > room:
		return "no room"
	}
	o.writer, p.late = p, false
	return "folder " + o.folder
}

// writes is the order that a program writes a checkpoint for, or why there is none.
func (s *libServer) writes(p *libProgram) (o *libOrder, why string) {
	switch {
	case s.asked != nil && s.asked.writer == p:
		return s.asked, ""
	case p.late:
		p.late = false
		return nil, "no late"
	}
	return nil, "no unbegun"
}

// commit looks at what was written without the lock: a file system may hang, and the
// time be over meanwhile.
func (s *libServer) commit(p *libProgram) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, why := s.writes(p)
	if o == nil {
		return why
	}
	s.mu.Unlock()
	err := hasContent(o.folder)
	s.mu.Lock()
	if _, why := s.writes(p); why != "" {
		return why
	}
	if err != nil {
		s.end(fmt.Errorf("%w: %w", errLibEmpty, err))
		return "no empty"
	}
	o.iteration, _ = s.page.told()
	s.end(nil)
	if o.stop {
		return "kept stop"
	}
	return "kept"
}

func (s *libServer) abort(p *libProgram) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, why := s.writes(p); o == nil {
		return why
	}
	s.end(errLibAborted)
	return "aborted"
}

// end ends the order that is asked for. The lock is held.
func (s *libServer) end(err error) {
	s.page.say(orderNone)
	s.asked.err = err
	close(s.asked.over)
	s.asked = nil
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
}

// order asks for a checkpoint into the folder.
func (s *libServer) order(folder string, stop bool) *libOrder {
	o := &libOrder{folder: folder, stop: stop, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = o
	if stop {
		s.page.say(orderStop)
	} else {
		s.page.say(orderCheckpoint)
	}
	return o
}

// withdraw takes an order back that is not over, and says whether the program has
// begun it. After it the order's outcome does not change.
func (s *libServer) withdraw(o *libOrder) (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun = o.writer != nil
	if s.asked != o {
		return begun
	}
	if begun {
		o.writer.late = true
	}
	s.end(errLibWithdrawn)
	return begun
}

// unheard says why nobody has begun what was asked for.
func (s *libServer) unheard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.heard:
		return "no process of the step has called burst_init on this node, the job's batch host: is the program linked with libburst, and its first rank here?"
	case len(s.programs) == 0:
		return "no process of the step is connected any more"
	}
	return "the program did not begin a checkpoint: it has not asked burst_should_checkpoint since"
}
