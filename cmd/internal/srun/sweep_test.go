package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/slurm"
)

// asked is a Slurm that counts its questions.
type asked struct {
	jobs []slurm.Job
	err  error
	all  int // questions for all jobs
	one  []uint32
	fail error // of a question for one
}

func (a *asked) Jobs(context.Context) ([]slurm.Job, error) { a.all++; return a.jobs, a.err }

func (a *asked) JobsOf(_ context.Context, id uint32) (jobs []slurm.Job, err error) {
	a.one = append(a.one, id)
	for _, j := range a.jobs {
		if j.ID == id || j.ArrayID == id {
			jobs = append(jobs, j)
		}
	}
	return jobs, cmp.Or(a.err, a.fail)
}

func TestSweep(t *testing.T) {
	done := steprecord.Step{Done: true}
	queue := []slurm.Job{{ID: 100}, {ID: 12}, {ID: 30, ArrayID: 30, ArrayTask: "1"}, {ID: 31, ArrayID: 31, ArrayTask: "4-9%2"}}
	const all = "10 11 12 13 14 15 16 17 18 30_1 30_2 31_5 100"
	for _, test := range []struct {
		name string
		jobs []slurm.Job
		err  error
		ctld string
		want string // what stays
		says string
	}{
		{name: "Slurm is there", jobs: queue, want: "11 12 13 14 15 16 17 18 30_1 31_5 100"},
		{name: "Slurm does not answer", err: errors.New("no answer"), want: all, says: "no answer"},
		{name: "Slurm has lost its state", want: all, says: "does not show job 100"},
		{name: "the controller is not known", jobs: queue, ctld: "none", want: all},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			leaves(t, dir, "10", done, done)              // well, and gone
			leaves(t, dir, "11", done, steprecord.Step{}) // a step has failed
			leaves(t, dir, "12", done)                    // Slurm knows it: it may be requeued
			leaves(t, dir, "13", done, steprecord.Step{Done: true, KeepAfter: true})
			b := steprecord.Book{Dir: dir, Cluster: "other", Ctld: ctl1, Job: "14", Script: "s"}
			leavesRecord(t, b, long, done)
			b.Cluster, b.Ctld, b.Job = "c", "ctl2(10.9.0.1):6817", "15" // another cluster, called the same
			leavesRecord(t, b, long, done)
			b.Ctld, b.Job = "", "16"
			leavesRecord(t, b, long, done)
			b.Ctld, b.Job = ctl1, "17"
			leavesRecord(t, b, sweepAge-time.Minute, done)
			b.Job = "18"
			leavesRecord(t, b, long, done)
			if err := os.Mkdir(filepath.Join(dir, "job-18", "old-1-step-0"), 0o700); err != nil {
				t.Fatal(err)
			}
			leaves(t, dir, "30_1", done)
			leaves(t, dir, "30_2", done) // well, and gone
			leaves(t, dir, "31_5", done) // has not begun again
			leaves(t, dir, "100", done)  // this one
			ctld := ctl1
			if test.ctld != "" {
				ctld = ""
			}
			_, err := sweeping{dir, "c", ctld, 100, &asked{jobs: test.jobs, err: test.err}}.sweep(t.Context())
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
			var left []string
			for _, job := range strings.Fields(all) {
				if _, err := os.Stat(filepath.Join(dir, "job-"+job)); err == nil {
					left = append(left, job)
				}
			}
			if strings.Join(left, " ") != test.want {
				t.Errorf("left are %q, want %s", left, test.want)
			}
		})
	}
}

// A sweep asks for all jobs once, and for one a bounded number of times, whatever the
// answers are.
func TestSweepAsksLittle(t *testing.T) {
	dir := t.TempDir()
	for i := range mostSwept + 5 {
		leaves(t, dir, fmt.Sprint(i+1))
	}
	ctld := &asked{jobs: []slurm.Job{{ID: 100}}, fail: errors.New("no answer now")}
	n, err := sweeping{dir, "c", ctl1, 100, ctld}.sweep(t.Context())
	if n != 0 || err == nil || ctld.all != 1 || len(ctld.one) != mostSwept {
		t.Errorf("%d deleted, %v; asked %d times for all, %d for one", n, err, ctld.all, len(ctld.one))
	}
}

func TestTurn(t *testing.T) {
	dir := t.TempDir()
	release := turn(dir)
	if release == nil || turn(dir) != nil {
		t.Fatal("not the first alone has the turn")
	}
	stamp := filepath.Join(dir, fmt.Sprintf(".swept-%d", os.Geteuid()))
	aged := func() {
		t.Helper()
		if err := os.Chtimes(stamp, time.Time{}, time.Now().Add(-sweepEach-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	aged()
	if turn(dir) != nil {
		t.Error("another sweeps at the same time")
	}
	release()
	release = turn(dir)
	if release == nil {
		t.Fatal("an hour later nobody sweeps")
	}
	release()
	// A file of another name is not written to by way of the turn's.
	aged()
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.Remove(stamp), os.WriteFile(other, []byte("steps of a job"), 0o600), os.Link(other, stamp)); err != nil {
		t.Fatal(err)
	}
	aged()
	if text, err := os.ReadFile(other); turn(dir) != nil || err != nil || string(text) != "steps of a job" {
		t.Errorf("%q, %v", text, err)
	}
}
