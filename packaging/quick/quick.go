// Package quick runs the tests of packages that wait more than they work, eight
// side by side, and frugally those that make much garbage. In -short it has their
// files in memory, where no sync waits for a disk; the full run has them on the disk.
package quick

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
)

const (
	memory = "/dev/shm"
	noexec = 8         // Statfs's ST_NOEXEC: tests run scripts that they write
	room   = 512 << 20 // bytes that must be free
)

// Run is m.Run. It is called by TestMain, with -short before anything asks for a
// temporary folder.
func Run(m *testing.M) int {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue { // nobody has said otherwise
		if err := flag.Set("test.parallel", "8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if testing.Short() {
		if dir := folder(); dir != "" {
			defer os.RemoveAll(dir)
			if err := os.Setenv("TMPDIR", dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	return m.Run()
}

// Frugal is Run for tests whose goroutines mostly wait for one another, as in a
// bubble of virtual time. In -short, where many packages are tested at once, a second
// processor for them, and a small heap, only cost.
func Frugal(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(400)
	}
	return Run(m)
}

// folder makes a folder in memory, "" where there is none that will do.
func folder() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Flags&noexec != 0 || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	dir, err := os.MkdirTemp(memory, "b") // short: sockets' paths are
	if err != nil {
		return ""
	}
	if err := os.Chmod(dir, 0o711); err != nil { // as /tmp: a test may act as another user
		os.RemoveAll(dir)
		return ""
	}
	return dir
}
