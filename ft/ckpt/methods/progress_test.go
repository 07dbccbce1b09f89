package methods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnOutputTellsItsIteration(t *testing.T) {
	for _, tt := range []struct {
		name, before, text string
		now, of            int64
	}{
		{"nothing", "", "", -1, 0},
		{"no number", "", "iteration one\n", -1, 0},
		{"one", "", "iteration 400\n", 400, 0},
		{"the last counts", "", "iteration 400\nresidual 1e-9\n", 400, 0},
		{"of how many", "", "iter: 40/1000, residual 3\nIter: 41/1000, residual 2\n", 41, 1000},
		{"in words", "", "Timestep 7 of 90\n", 7, 90},
		{"a progress bar", "", "epoch 1/9\repoch 2/9\repoch 3", 2, 9},
		{"a line that is not whole", "", "iteration 12\niteration 13", 12, 0},
		{"steps of something else", "", "step 0 of job 17\nslurmstepd: error: *** STEP 17.0 ***\nstep 8\n", -1, 0},
		{"a step of how many", "", "step 8/90\n", 8, 90},
		{"checkpoints and others say something else", "", "iteration 5\ncheckpoint at iteration 4\nburst-srun: restarts from gen-1, iteration 3\n", 5, 0},
		{"too many", "", "iteration 99999999999999999999\n", -1, 0},
		{"more than there are", "", "iteration 9 of 8\n", 9, 0},
		{"of the start before", "iteration 900\n", "begins\n", -1, 0},
		{"since then", "iteration 900\n", "iteration 401\n", 401, 0},
		{"a long one", "", "iteration 1\n" + strings.Repeat("x", 2*iterationTail) + "\niteration 2\nend\n", 2, 0},
		{"no lines at all", "", strings.Repeat("iteration 7 ", iterationTail), -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.WriteString(tt.before)
			o := Follow(f)
			f.WriteString(tt.text)
			if now, of := o.Iteration(); now != tt.now || of != tt.of {
				t.Errorf("%d of %d, want %d of %d", now, of, tt.now, tt.of)
			}
		})
	}
}

// TestAnOutputThatCannotBeRead is not waited for; one that was emptied begins anew.
func TestAnOutputThatCannotBeRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if now, _ := Follow(w).Iteration(); now != -1 {
		t.Errorf("a pipe tells %d", now)
	}
	if now, _ := Follow(&strings.Builder{}).Iteration(); now != -1 {
		t.Errorf("no file tells %d", now)
	}
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString(strings.Repeat("before\n", 100))
	o := Follow(f)
	if err := os.WriteFile(path, []byte("iteration 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if now, _ := o.Iteration(); now != 3 {
		t.Errorf("one that was emptied tells %d", now)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("iter 1/2")
	f.Add("\x00step 99999999999999999999 of 1")
	f.Fuzz(func(t *testing.T, line string) {
		now, of := told([]byte(line))
		if now < -1 || of < 0 || of != 0 && of < now {
			t.Errorf("%d of %d", now, of)
		}
	})
}
