package store

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/history"
)

const runsKilled = "BURST_TEST_RUNS_KILLED"

// TestRunsOutliveBurstd: a burstd that is killed at any moment of writing runs down,
// and begins with the same again, loses and doubles none.
func TestRunsOutliveBurstd(t *testing.T) {
	var all []history.Run
	for i := range uint32(usageBatch + 200) { // two transactions
		r := over(run(i+1, 0))
		r.Submitted = at
		all = append(all, r)
	}
	if path := os.Getenv(runsKilled); path != "" {
		s := open(t, path)
		for {
			fmt.Println("written")
			writeRuns(t, s, all...)
		}
	}
	path := filepath.Join(t.TempDir(), "burst.db")
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRunsOutliveBurstd$")
		cmd.Env = append(os.Environ(), runsKilled+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range round + 1 {
			if !lines.Scan() {
				t.Error("it does not write")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		s := open(t, path)
		if n := len(told(t, s, RunsQuery{UID: -1, Last: 10_000})); n != 0 && n != usageBatch && n != len(all) || n < len(all) && round > 1 {
			t.Errorf("%d are there", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, path)
	writeRuns(t, s, all...)
	if n := len(told(t, s, RunsQuery{UID: -1, Last: 10_000})); n != len(all) {
		t.Errorf("%d are there, want %d", n, len(all))
	}
}
