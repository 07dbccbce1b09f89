package ckpt

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run has short tests write to memory, where there is room: no sync waits for a
// disk. The full run writes to the disk.
func run(m *testing.M) int {
	const memory, room = "/dev/shm", 512 << 20
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); !testing.Short() || err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return m.Run()
	}
	dir, err := os.MkdirTemp(memory, "b")
	if err != nil {
		return m.Run()
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("TMPDIR", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
