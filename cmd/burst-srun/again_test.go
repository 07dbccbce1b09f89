package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

// givenAgain: an earlier job with the same id has left checkpoints, and this one's first
// attempt never came to burst-srun. Its second takes none of them, and leaves none of its
// own, as its step is done. It also holds what tells jobs apart to what Slurm does.
func (s site) givenAgain(t *testing.T) {
	program := filepath.Join(s.dir, "counting")
	if err := os.WriteFile(program, []byte(count), 0o755); err != nil {
		t.Fatal(err)
	}
	id, dir := s.submit(t, `#!/bin/bash
#SBATCH --requeue
#BURST ckpt=signal signal=USR1 files=ck strategy=periodic interval=1s dir=ckpt
[ "$SLURM_RESTART_COUNT" ] || sleep 1000
srun --once work `+program+`
`, "--hold")
	job := func(state string) (j slurm.Job) {
		t.Helper()
		until(t, "it is "+state, func() bool {
			var err error
			if j, err = s.Job(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			return j.State == state
		})
		return j
	}
	first := job("PENDING")
	name := strconv.FormatUint(uint64(id), 10)
	old, err := ckpt.Open(t.Context(), ckpt.Options{Dir: filepath.Join(dir, "ckpt"), Job: name, Step: "work", Reserve: 1,
		Identity: ckpt.Identity{Origin: ckpt.Origin{Script: "another", Submitted: first.Submitted.Add(-time.Hour)}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := old.Begin(t.Context(), 0)
	if err == nil {
		_, err = p.Commit(t.Context(), ckpt.About{Method: "signal"})
	}
	if err != nil {
		t.Fatal(err)
	}
	old.Close()
	if out, err := s.Command(t.Context(), "scontrol", "release", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if running := job("RUNNING"); !running.Submitted.Equal(first.Submitted) {
		t.Errorf("submitted at %v, and then at %v, in one attempt", first.Submitted, running.Submitted)
	}
	until(t, "Slurm's next second has begun", func() bool { return time.Since(first.Submitted) > time.Second })
	if err := s.Requeue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), id, 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	code := s.ended(t, id)
	errs := read(t, dir, "err")
	if code != 0 || !strings.Contains(errs, "what an earlier job with the id "+name+" has left of step work") || !strings.Contains(read(t, dir, "out"), "start 0\n") {
		t.Errorf("exit code %d\n%s%s", code, read(t, dir, "out"), errs)
	}
	var begun ckpt.Origin
	step := filepath.Join(dir, "ckpt", "job-"+name, "step-work")
	if err := json.Unmarshal([]byte(read(t, filepath.Join(step, "attempt-1"), "begun.json")), &begun); err != nil {
		t.Fatal(err)
	}
	last, err := s.Job(t.Context(), id)
	if err != nil || !begun.Submitted.Equal(last.Submitted) || !last.Submitted.After(first.Submitted) || last.Restarts != 1 {
		t.Errorf("noted %+v; Slurm says %+v, %v, and %v before the requeue", begun, last, err, first.Submitted)
	}
	left, err := filepath.Glob(filepath.Join(step, "attempt-*", "gen-*"))
	if err != nil || len(left) > 0 || !strings.Contains(errs, " checkpoints (") || strings.Contains(errs, ", 0 checkpoints") {
		t.Errorf("%v stay of a step that is done, %v\n%s", left, err, errs)
	}
	if moved, err := filepath.Glob(filepath.Join(dir, "ckpt", "job-"+name, "old-*", "attempt-0", "gen-1", "manifest.json")); err != nil || len(moved) != 1 {
		t.Errorf("moved away: %v, %v", moved, err)
	}
}
