package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// adopted: nobody asks for checkpoints any more when the job is requeued, and where
// burstd is is not known. It goes on from what is there, and begins anew by its user's
// word alone.
func (s site) adopted(t *testing.T) {
	program := filepath.Join(s.dir, "going-on")
	if err := os.WriteFile(program, []byte(count), 0o755); err != nil {
		t.Fatal(err)
	}
	id, dir := s.submit(t, `#!/bin/bash
#SBATCH --requeue
#BURST signal=USR1
rm -f ck
srun `+program+`
`, "--comment=burst: ckpt=signal files=ck strategy=periodic interval=1s")
	gen := filepath.Join(dir, "burst-checkpoints", fmt.Sprintf("job-%d", id), "step-0", "attempt-0", "gen-2")
	until(t, "there is a checkpoint", func() bool {
		_, err := os.Stat(gen)
		return err == nil
	})
	again := func(comment string, starts int) {
		t.Helper()
		if out, err := s.Command(t.Context(), "scontrol", "update", fmt.Sprintf("jobid=%d", id), "comment="+comment).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := s.Requeue(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), id, starts-1, time.Now()); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("it has started %d times", starts), func() bool { return strings.Count(read(t, dir, "out"), "start ") == starts })
	}
	again("none of Burst's", 2)
	again("burst: ckpt=none", 3)
	if code := s.ended(t, id); code != 0 {
		t.Errorf("exit code %d", code)
	}
	out, errs := read(t, dir, "out"), read(t, dir, "err")
	var first, second, third int
	var lines []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "start ") {
			lines = append(lines, line)
		}
	}
	if n, err := fmt.Sscanf(strings.Join(lines, ""), "start %d\nstart %d\nstart %d\n", &first, &second, &third); n != 3 || first != 0 || second == 0 || third != 0 {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	if !strings.Contains(errs, "the step goes on under ckpt=signal") || !strings.Contains(errs, "step 0 restarts from") {
		t.Errorf("errors:\n%s", errs)
	}
}
