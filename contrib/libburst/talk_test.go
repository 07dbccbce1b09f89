package libburst

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the library's, in this program.
const patience = 300 * time.Millisecond

// talker is a talk that runs.
type talker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func talk(t *testing.T, bin string, env ...string) talker {
	t.Helper()
	cmd := exec.Command(bin) // ended by the end of its input
	cmd.Env, cmd.Stderr = env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program has died: %v", err)
		}
	})
	return talker{t, cmd, in, bufio.NewScanner(out)}
}

// want makes a call, and checks what is printed.
func (p talker) want(call, want string) {
	p.t.Helper()
	fmt.Fprintln(p.in, call) // what it fails with is seen by the answer
	if !p.out.Scan() {
		p.t.Fatalf("no answer to %q", call)
	}
	if got := p.out.Text(); got != want {
		p.t.Errorf("%s: %q, want %q", call, got, want)
	}
}

// TestAlone: without a burst-srun every call does nothing, and says that all is well.
func TestAlone(t *testing.T) {
	t.Parallel()
	bin := buildTalk(t)
	dir := t.TempDir()
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "dead"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"no variables":          nil,
		"empty":                 {"BURST_LIB=", "BURST_LIB_RESTART="},
		"another node":          {"BURST_LIB=" + filepath.Join(dir, "gone", "socket")},
		"a folder that is none": {"BURST_LIB=" + filepath.Join(dir, "file", "socket")},
		"nobody listens":        {"BURST_LIB=" + filepath.Join(dir, "dead")},
		"another job's":         {"BURST_LIB=" + filepath.Join(dir, "file"), "BURST_LIB_RESTART=/x", "BURST_LIB_JOB=7", "SLURM_JOB_ID=8"},
	} {
		t.Run(name, func(t *testing.T) {
			p := talk(t, bin, env...)
			for _, again := range []string{"", "init", "init", "finalize"} {
				if again != "" {
					p.want(again, "0")
				}
				p.want("connected", "0")
				p.want("progress 1 2", "0")
				p.want("should", "0")
				p.want("want", "0")
				p.want("begin 4096", " -1")
				p.want("commit", "-4")
				p.want("abort", "-4")
				p.want("restart", "none 0")
			}
		})
	}
	p := talk(t, bin, "BURST_LIB_RESTART=/kept/gen-1/files", "BURST_LIB_JOB=7", "SLURM_JOB_ID=7")
	p.want("restart", "/kept/gen-1/files 0")
	het := []string{"BURST_LIB_RESTART=/kept", "BURST_LIB_JOB=7", "SLURM_HET_SIZE=2", "SLURM_JOB_ID_HET_GROUP_0=7", "SLURM_JOB_ID_HET_GROUP_1=8"}
	for id, want := range map[string]string{"7": "/kept 0", "8": "/kept 0", "9": "none 0"} { // 9 was submitted from within
		talk(t, bin, append(het, "SLURM_JOB_ID="+id)...).want("restart", want)
	}
	p = talk(t, bin, "BURST_LIB_RESTART=/kept", "BURST_LIB_JOB=7", "SLURM_JOB_ID=9", "SLURM_HET_SIZE=2", "SLURM_JOB_ID_HET_GROUP_0=9", "SLURM_JOB_ID_HET_GROUP_1=10")
	p.want("restart", "none 0") // and so was this one, which is heterogeneous itself
}

// fake is a burst-srun that does what a test wants.
type fake struct {
	t    *testing.T
	path string
	l    *net.UnixListener
	conn *net.UnixConn
}

func listen(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, path: filepath.Join(t.TempDir(), "s")}
	var err error
	if f.l, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: f.path, Net: "unixpacket"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.l.Close() })
	return f
}

// page is memory to give to the program.
func page(t *testing.T, size int64, seals int, magic, version uint32) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("page", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "page")
	t.Cleanup(func() { f.Close() })
	head := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, magic), version)
	if _, err := f.WriteAt(head, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if seals != 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func goodPage(t *testing.T) *os.File {
	return page(t, 4096, unix.F_SEAL_SHRINK, 0x54535242, 1)
}

// answers has the next connection's first words answered, and the connection kept.
func (f *fake) answers(words string, files ...*os.File) {
	f.l.SetDeadline(time.Now().Add(time.Minute)) // fails only where it is closed
	conn, err := f.l.AcceptUnix()
	if err != nil {
		f.t.Error(err)
		return
	}
	f.conn = conn
	f.t.Cleanup(func() { conn.Close() })
	f.reply(words, files...)
}

// reply answers one packet; "": it ends the connection, "-": it says nothing.
func (f *fake) reply(words string, files ...*os.File) {
	packet := make([]byte, 100)
	if _, err := f.conn.Read(packet); err != nil {
		f.t.Error(err)
	}
	switch words {
	case "":
		f.conn.Close() // the program sees it
	case "-":
	default:
		var rights []byte
		for _, file := range files {
			rights = append(rights, unix.UnixRights(int(file.Fd()))...)
		}
		if _, _, err := f.conn.WriteMsgUnix([]byte(words), rights, nil); err != nil {
			f.t.Error(err)
		}
	}
}

// TestGreeting: burst-sruns that are none.
func TestGreeting(t *testing.T) {
	t.Parallel()
	bin := buildTalk(t)
	const lost, refused = "-7", "-8"
	good := goodPage(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		words string
		files []*os.File
		want  string
	}{
		"good":                   {"welcome", []*os.File{good}, "0"},
		"ends":                   {"", nil, lost},
		"says nothing":           {"-", nil, "-10"},
		"of another version":     {"no version", nil, refused},
		"no for another reason":  {"no \xff", nil, lost},
		"another word":           {"welcome\n", []*os.File{good}, refused},
		"an end in the word":     {"welcome\x00", []*os.File{good}, lost},
		"far too long":           {strings.Repeat("welcome", 1000), []*os.File{good}, lost},
		"no file":                {"welcome", nil, refused},
		"two files":              {"welcome", []*os.File{good, good}, refused},
		"a file on disk":         {"welcome", []*os.File{file}, refused},
		"a page that may shrink": {"welcome", []*os.File{page(t, 4096, 0, 0x54535242, 1)}, refused},
		"a small page":           {"welcome", []*os.File{page(t, 100, unix.F_SEAL_SHRINK, 0x54535242, 1)}, refused},
		"another page":           {"welcome", []*os.File{page(t, 4096, unix.F_SEAL_SHRINK, 1, 1)}, refused},
		"a page of version 2":    {"welcome", []*os.File{page(t, 4096, unix.F_SEAL_SHRINK, 0x54535242, 2)}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			f := listen(t)
			done := make(chan struct{})
			go func() { defer close(done); f.answers(c.words, c.files...) }()
			p := talk(t, bin, "BURST_LIB="+f.path)
			p.want("init", c.want)
			<-done
			connected := "0"
			if c.want == "0" {
				connected = "1"
			}
			p.want("connected", connected)
			p.want("should", "0")
			p.want("progress 1 2", "0")
			p.want("finalize", "0")
			if n := strings.Count(maps(t, p.cmd.Process.Pid), "memfd"); n > 0 {
				t.Errorf("%d pages stay mapped", n)
			}
		})
	}
}

func maps(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAnswers: what burst-srun says to a begin or a commit, and what becomes of the
// library. After a loss all calls do nothing, and an order in the page is not seen.
func TestAnswers(t *testing.T) {
	t.Parallel()
	bin := buildTalk(t)
	long := "/" + strings.Repeat("x", 4094)
	for name, c := range map[string]struct {
		call, answer, want string
		lost               bool
	}{
		"a folder":              {"begin 4096", "folder /a b", "/a b 0", false},
		"the longest":           {"begin 4096", "folder " + long, long + " 0", false},
		"not asked":             {"begin 4096", "no unasked", " -1", false},
		"busy":                  {"begin 4096", "no busy", " -2", false},
		"no room":               {"begin 10", "no room", " -6", false},
		"longer than the room":  {"begin 10", "folder /123456789", " -7", true},
		"as long as the room":   {"begin 10", "folder /12345678", "/12345678 0", false},
		"no path":               {"begin 4096", "folder a", " -7", true},
		"no folder":             {"begin 4096", "folder", " -7", true},
		"garbage":               {"begin 4096", "\xff\xfe", " -7", true},
		"too long":              {"begin 4096", "folder /" + strings.Repeat("x", 9000), " -7", true},
		"an end in the path":    {"begin 4096", "folder /a\x00b", " -7", true},
		"a refusal not known":   {"begin 4096", "no what", " -7", true},
		"it ends":               {"begin 4096", "", " -7", true},
		"kept":                  {"commit", "kept", "0", false},
		"kept, and stop":        {"commit", "kept stop", "2", false},
		"late":                  {"commit", "no late", "-3", false},
		"not begun":             {"commit", "no unbegun", "-4", false},
		"empty":                 {"commit", "no empty", "-5", false},
		"it ends at the commit": {"commit", "", "-7", true},
		"garbage to the commit": {"commit", "kept ", "-7", true},
		"wanted, and asked":     {"want", "asked", "2", false},
		"wanted, and not asked": {"want", "no unasked", "-1", false},
		"it ends at the wish":   {"want", "", "-7", true},
		"garbage to the wish":   {"want", "asked for", "-7", true},
		"aborted":               {"abort", "aborted", "0", false},
		"ends at the abort":     {"abort", "", "-7", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := listen(t)
			memory := goodPage(t)
			done := make(chan struct{})
			go func() { f.answers("welcome", memory); f.reply(c.answer); close(done) }()
			p := talk(t, bin, "BURST_LIB="+f.path)
			p.want("init", "0")
			order(t, memory, 2)
			p.want("should", "2")
			p.want(c.call, c.want)
			<-done
			connected, should := "1", "2"
			if c.lost {
				connected, should = "0", "0"
			}
			p.want("connected", connected)
			p.want("should", should)
			p.want("progress 3 4", "0")
			if c.lost {
				p.want("want", "0")
				p.want("begin 4096", " -1")
				p.want("commit", "-4")
				p.want("finalize", "0")
				return
			}
			if now := at(t, memory, 128); now != 3 {
				t.Errorf("it told iteration %d", now)
			}
		})
	}
}

func order(t *testing.T, memory *os.File, kind uint32) {
	t.Helper()
	if _, err := memory.WriteAt(binary.NativeEndian.AppendUint32(nil, kind), 64); err != nil {
		t.Fatal(err)
	}
}

func at(t *testing.T, memory *os.File, offset int64) int64 {
	t.Helper()
	b := make([]byte, 8)
	if _, err := memory.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	return int64(binary.NativeEndian.Uint64(b))
}

// TestDeath: burst-srun dies while the library is idle. The program does not notice,
// and is not ended by what it says then.
func TestDeath(t *testing.T) {
	t.Parallel()
	f := listen(t)
	memory := goodPage(t)
	done := make(chan struct{})
	go func() { defer close(done); f.answers("welcome", memory) }()
	p := talk(t, buildTalk(t), "BURST_LIB="+f.path)
	p.want("init", "0")
	<-done
	order(t, memory, 7) // none that there is
	p.want("should", "0")
	order(t, memory, 1)
	p.want("fork", "0 0 -1 -4 -10 0 0") // nobody accepts the child's greeting
	if now := at(t, memory, 128); now == 77 {
		t.Error("a child spoke for its parent")
	}
	if err := errors.Join(f.conn.Close(), f.l.Close()); err != nil {
		t.Fatal(err)
	}
	p.want("should", "1")
	p.want("progress 5 6", "0")
	p.want("commit", "-7")
	p.want("should", "0")
	p.want("init", "0") // nobody listens
	p.want("connected", "0")
}
