package srun

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shellTime is how long a signal that ends the job may take from this process to
// the script. Slurm signals a job's processes one after the other, the script last,
// and on a busy machine whoever is woken runs first.
const shellTime = time.Second

// outlive waits until the script that runs this process has died of the SIGTERM
// that this process got: else it would go on, as if the step were done. One that
// catches or ignores it waits for this process, and is not waited for.
func outlive(ctx context.Context, proc string, pids ...int) {
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for slices.ContainsFunc(pids, func(pid int) bool { return diesOfTerm(proc, pid) }) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// diesOfTerm says whether a process lives that SIGTERM would kill.
func diesOfTerm(proc string, pid int) bool {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			if value == "" || value[0] == 'Z' || value[0] == 'X' {
				return false
			}
		case "SigCgt", "SigIgn":
			mask, err := strconv.ParseUint(value, 16, 64)
			if err != nil || mask&(1<<(syscall.SIGTERM-1)) != 0 {
				return false
			}
		}
	}
	return true
}
