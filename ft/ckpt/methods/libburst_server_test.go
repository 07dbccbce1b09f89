package methods

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listening is a server under test.
func listening(t *testing.T) *libServer {
	t.Helper()
	s, err := listenLib(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.place.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left behind: %v", s.place.dir, err)
		}
	})
	return s
}

// caller is a program that says what it likes.
type caller struct {
	t *testing.T
	*net.UnixConn
}

func (s *libServer) call(t *testing.T) caller {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.path(), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(longEnough)); err != nil {
		t.Fatal(err)
	}
	return caller{t, conn}
}

// says has the answer; "": the connection was ended.
func (c caller) says(words string) string {
	c.t.Helper()
	if _, err := c.Write([]byte(words)); err != nil {
		return ""
	}
	answer := make([]byte, 8192)
	n, err := c.Read(answer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%q is not answered", words)
	}
	return string(answer[:n])
}

func (c caller) want(words, answer string) {
	c.t.Helper()
	if got := c.says(words); got != answer {
		c.t.Errorf("%q is answered by %q, want %q", words, got, answer)
	}
}

// folder is one with a file, to be committed.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "state"), "x")
	return dir
}

func TestLibburstTalk(t *testing.T) {
	t.Parallel()
	s := listening(t)
	one, two := s.call(t), s.call(t)
	one.want("hello 1", "welcome")
	two.want("hello 1", "welcome")
	one.want("begin 4096", "no unasked")
	one.want("commit", "no unbegun")
	one.want("abort", "no unbegun")
	dir := filled(t)
	o := s.order(dir, true)
	one.want("commit", "no unbegun")
	one.want(fmt.Sprint("begin ", len(dir)), "no room")
	one.want(fmt.Sprint("begin ", len(dir)+1), "folder "+dir)
	one.want("begin 4096", "no busy")
	two.want("begin 4096", "no busy")
	two.want("commit", "no unbegun")
	two.want("abort", "no unbegun")
	one.want("commit", "kept stop")
	if <-o.over; o.err != nil || o.iteration != -1 {
		t.Errorf("%v, iteration %d", o.err, o.iteration)
	}
	one.want("commit", "no unbegun")

	o = s.order(dir, false)
	two.want("begin 4096", "folder "+dir)
	two.want("abort", "aborted")
	if <-o.over; !errors.Is(o.err, errLibAborted) {
		t.Error(o.err)
	}
	two.want("begin 4096", "no unasked")

	o = s.order(t.TempDir(), false)
	one.says("begin 4096")
	one.want("commit", "no empty")
	if <-o.over; !errors.Is(o.err, errLibEmpty) {
		t.Error(o.err)
	}

	// One that was withdrawn, and its writer that does not know it yet.
	o = s.order(dir, false)
	one.want("begin 4096", "folder "+dir)
	if !s.withdraw(o) || !errors.Is(o.err, errLibWithdrawn) {
		t.Error(o.err)
	}
	next := filled(t)
	o = s.order(next, false)
	one.want("commit", "no late")
	one.want("begin 4096", "folder "+next)
	one.want("commit", "kept")
	if s.withdraw(o); o.err != nil {
		t.Errorf("what was kept is taken back: %v", o.err)
	}

	// The writer goes, and the other takes the next.
	o = s.order(dir, false)
	one.says("begin 4096")
	one.Close()
	if <-o.over; !errors.Is(o.err, errLibGone) {
		t.Error(o.err)
	}
	o = s.order(dir, false)
	two.want("begin 4096", "folder "+dir)
	two.want("commit", "kept")
	if s.withdraw(o); o.err != nil {
		t.Error(o.err)
	}
}

// TestLibburstGarbage: who says what is none of libburst's loses its connection, and
// nobody else anything.
func TestLibburstGarbage(t *testing.T) {
	t.Parallel()
	s := listening(t)
	good := s.call(t)
	good.want("hello 1", "welcome")
	dir := filled(t)
	o := s.order(dir, false)
	good.want("begin 4096", "folder "+dir)
	for name, words := range map[string][]string{
		"nothing":             {""},
		"no greeting":         {"begin 4096"},
		"two greetings":       {"hello 1", "hello 1"},
		"half a word":         {"hello 1", "comm"},
		"a word and a half":   {"hello 1", "commit com"},
		"a line's end":        {"hello 1", "commit\n"},
		"no number":           {"hello 1", "begin"},
		"a number below 0":    {"hello 1", "begin -1"},
		"too great a number":  {"hello 1", "begin 99999999999999999999"},
		"a number with zeros": {"hello 1", "begin 007"},
		"bytes":               {"hello 1", "\x00\xff\x80"},
		"far too long":        {"hello 1", "commit" + strings.Repeat(" ", 100_000)},
		"a little too long":   {"hello 1", strings.Repeat("commit", 11)},
	} {
		c := s.call(t)
		for i, w := range words {
			if got := c.says(w); i == len(words)-1 && got != "" {
				t.Errorf("%s is answered by %q", name, got)
			}
		}
	}
	c := s.call(t)
	c.want("hello 2", "no version")
	c.want("begin 4096", "")
	flood := s.call(t) // which never reads an answer
	flood.want("hello 1", "welcome")
	for range 100_000 {
		if _, err := flood.Write([]byte("begin 4096")); err != nil {
			break
		}
	}
	good.want("commit", "kept")
	if s.withdraw(o); o.err != nil {
		t.Error(o.err)
	}
}

// TestLibburstPage: nonsense in the page is not believed, and the page cannot be made
// smaller.
func TestLibburstPage(t *testing.T) {
	t.Parallel()
	p, err := newLibPage()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ now, of, wantNow, wantOf int64 }{
		{-1, 0, -1, 0}, {0, 0, 0, 0}, {5, 9, 5, 9}, {9, 9, 9, 9}, {10, 9, 10, 0}, {-5, 9, -1, 0}, {1 << 62, -1, 1 << 62, 0}, {3, 0, 3, 0},
	} {
		*p.long(iterationAt), *p.long(totalAt) = c.now, c.of
		if now, of := p.told(); now != c.wantNow || of != c.wantOf {
			t.Errorf("%d of %d is read as %d of %d", c.now, c.of, now, of)
		}
	}
	if err := unix.Ftruncate(int(p.file.Fd()), 0); err == nil {
		t.Error("it was made smaller")
	}
	if err := errors.Join(p.close(), p.close()); err != nil {
		t.Error(err)
	}
	p.say(orderStop) // of no consequence
	if now, of := p.told(); now != 3 || of != 0 {
		t.Errorf("after its end %d of %d", now, of)
	}
}

// TestLibburstOtherUser: another user's process is not heard, even where the folder is
// open to it.
func TestLibburstOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: another user's process at libburst's socket: only root can start one")
	}
	s := listening(t)
	if err := errors.Join(os.Chmod(libTemp, 0o755), os.Chmod(s.place.dir, 0o755), os.Chmod(s.path(), 0o777)); err != nil {
		t.Fatal(err)
	}
	byLibburst(t) // builds the program
	run := func(uid uint32) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(libTemp, "program"), "count", "-to=1")
		cmd.Env = []string{libSocketEnv + "=" + s.path()}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.CombinedOutput() // its exit code tells nothing more
		return fmt.Sprint(cmd.ProcessState.ExitCode(), " ", string(out))
	}
	if got := run(0); !strings.HasPrefix(got, "0 ready") {
		t.Fatalf("its own user: %s", got)
	}
	if now, _ := s.iteration(); now != 1 {
		t.Errorf("its own user told %d", now)
	}
	*s.page.long(iterationAt) = -1
	if got := run(65534); !strings.HasPrefix(got, "3 ") { // burst_init refuses too
		t.Errorf("another user: %s", got)
	}
	answer := make(chan string)
	go func() { // and one that does not look who listens
		runtime.LockOSThread() // for good: the thread ends with its user
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
			answer <- e.Error()
			return
		}
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.path(), Net: "unixpacket"})
		if err != nil {
			answer <- err.Error()
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(longEnough)) // fails only where it is closed
		conn.Write([]byte("hello 1"))                // it may be closed already
		n, err := conn.Read(make([]byte, 100))
		answer <- fmt.Sprint(n, errors.Is(err, os.ErrDeadlineExceeded))
	}()
	if got := <-answer; got != "0 false" {
		t.Errorf("another user that does not look: %s", got)
	}
	if now, _ := s.iteration(); now != -1 {
		t.Errorf("another user told %d", now)
	}
}

// TestLibburstSweep: folders of processes that were killed are deleted, others stay.
func TestLibburstSweep(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	dir := func(name string, at time.Time) string {
		d := filepath.Join(libTemp, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(d, libSocketName), "x")
		if err := os.Chtimes(d, at, at); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(d) })
		return d
	}
	dead, young := dir(libPrefix()+"DEAD", old), dir(libPrefix()+"YOUNG", time.Now())
	other := dir("burst-lib-4242424-DEAD", old)
	s := listening(t)
	if err := os.Chtimes(s.place.dir, old, old); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(libTemp, libPrefix()+"LINK")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(link)
	sweepLib()
	for path, want := range map[string]bool{dead: false, young: true, other: true, s.place.dir: true, link: true, filepath.Join(other, libSocketName): true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestLibburstCrowd: many programs at once, who all want to write.
func TestLibburstCrowd(t *testing.T) {
	t.Parallel()
	s := listening(t)
	dir := filled(t)
	const programs, orders = 20, 30
	var wg sync.WaitGroup
	var mu sync.Mutex
	kept := 0
	done := make(chan struct{})
	for range programs {
		c := s.call(t)
		c.want("hello 1", "welcome")
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if c.says("begin 4096") != "folder "+dir {
					continue
				}
				switch got := c.says("commit"); got {
				case "kept":
					mu.Lock()
					kept++
					mu.Unlock()
				case "no late":
				default:
					t.Errorf("commit: %q", got)
				}
			}
		})
	}
	good := 0
	for i := range orders {
		o := s.order(dir, false)
		if i%3 != 0 {
			<-o.over
		}
		s.withdraw(o)
		if o.err == nil {
			good++
		} else if !errors.Is(o.err, errLibWithdrawn) {
			t.Error(o.err)
		}
	}
	close(done)
	wg.Wait()
	if mu.Lock(); good != kept || good < orders/2 {
		t.Errorf("%d orders were kept, and %d programs told so", good, kept)
	}
}

func FuzzLibburstCall(f *testing.F) {
	for _, s := range []string{"hello 1", "begin 4096", "commit", "abort", "begin 007", "commit ", "hello", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		c, err := parseLibCall(packet)
		if err != nil {
			return
		}
		text := c.word
		if c.word == "hello" || c.word == "begin" {
			text += fmt.Sprint(" ", c.number)
		}
		if !bytes.Equal(packet, []byte(text)) || c.number < 0 {
			t.Errorf("%q is read as %+v", packet, c)
		}
	})
}
