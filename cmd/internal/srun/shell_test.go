package srun

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestTheScriptDiesFirst: what SIGTERM kills is waited for until it is dead, though
// nobody has waited for it yet, and no longer than shellTime; what bears it is not.
func TestTheScriptDiesFirst(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		after        time.Duration // until it is killed; 0: it is not
		least, most  time.Duration
	}{
		{"it dies", `echo up; read x`, 100 * time.Millisecond, 90 * time.Millisecond, shellTime},
		{"it does not die", `echo up; read x`, 0, shellTime, time.Minute},
		{"it catches the signal", `trap 'echo caught' TERM; echo up; read x`, 0, 0, shellTime},
		{"it ignores the signal", `trap '' TERM; echo up; read x`, 0, 0, shellTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", tt.script)
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
			defer func() {
				in.Close()
				_ = cmd.Wait() // it may have been killed
			}()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
				t.Fatalf("the script said %q, %v", line, err)
			}
			began := time.Now()
			if tt.after > 0 {
				time.AfterFunc(tt.after, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
			}
			outlive(t.Context(), "/proc", cmd.Process.Pid)
			if took := time.Since(began); took < tt.least || took >= tt.most {
				t.Errorf("it was waited for %s, want %s to %s", took, tt.least, tt.most)
			}
		})
	}
	outlive(t.Context(), "/proc", 1<<30) // nobody
}
