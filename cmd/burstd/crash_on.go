//go:build crashpoints

package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/burst-hpc/burst/cmd/internal/crash"
)

// crashPoint appends every point that is passed to the file BURST_CRASH_LOG,
// as "name #n" for its n-th time, and at the one that BURST_CRASH_AT names the
// process kills itself. Only a burstd built for the crash tests has it.
func crashPoint() crash.Point {
	at, log := os.Getenv("BURST_CRASH_AT"), os.Getenv("BURST_CRASH_LOG")
	if at == "" && log == "" {
		return nil
	}
	var mu sync.Mutex
	times := map[string]int{}
	return func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		times[name]++
		point := fmt.Sprintf("%s #%d", name, times[name])
		if log != "" {
			f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			fmt.Fprintln(f, point)
			f.Close()
		}
		if point == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
}
