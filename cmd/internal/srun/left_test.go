package srun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/step"
)

func TestIdentity(t *testing.T) {
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	script := sum("#!/bin/sh")
	for _, test := range []struct {
		name    string
		attempt int
		state   slurm.Job
		told    time.Time // by burstd
		want    ckpt.Identity
	}{
		{"attempt 0", 0, slurm.Job{Submitted: first}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script, Submitted: first}, First: first}},
		{"a later attempt", 2, slurm.Job{Submitted: later, Restarts: 2}, first, ckpt.Identity{Origin: ckpt.Origin{Script: script, Submitted: later}, First: first}},
		{"a later attempt, and burstd is away", 2, slurm.Job{Submitted: later, Restarts: 2}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script, Submitted: later}}},
		{"Slurm does not answer", 0, slurm.Job{}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script}}},
		// What Slurm says is of the attempt after this one.
		{"a cut-off attempt 0", 0, slurm.Job{Submitted: later, Restarts: 1}, time.Time{}, ckpt.Identity{Origin: ckpt.Origin{Script: script}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, end := range []string{"", "\n", "\n\x00"} {
				k := known{facts: facts{job: step.Job{ID: 17, Attempt: test.attempt}}, seen: seen{script: "#!/bin/sh" + end, state: test.state}, word: Before{First: test.told}}
				if got := k.identity(); got != test.want {
					t.Errorf("with %q at the script's end: %+v, want %+v", end, got, test.want)
				}
			}
		})
	}
}

// A step of --once that an earlier job of the same id has done is not done by this one,
// the first attempt of which was never here.
func TestRecordsOfAnEarlierJob(t *testing.T) {
	dir := t.TempDir()
	first := time.Unix(1000, 0)
	b := book{dir: dir, cluster: "c", job: "17", script: "s", identity: ckpt.Identity{Origin: ckpt.Origin{Submitted: first}, First: first}}
	err := b.change(t.Context(), func(r *record) error {
		r.Steps = []entry{{Name: "post", Done: true}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		first time.Time // of the job that asks
		want  int
	}{{"its own", first, 1}, {"not known", time.Time{}, 1}, {"a later job", first.Add(time.Second), 0}} {
		next := b
		next.attempt, next.identity = 1, ckpt.Identity{Origin: ckpt.Origin{Submitted: first.Add(time.Hour)}, First: test.first}
		r, _, err := next.peek()
		if err != nil || len(r.Steps) != test.want {
			t.Errorf("%s: %+v, %v", test.name, r.Steps, err)
		}
	}
}

// leaveJob has a job leave generations and a record in dir.
func leaveJob(t *testing.T, dir, job, cluster string, steps ...entry) {
	t.Helper()
	for i := range steps {
		steps[i].Name = fmt.Sprint(i)
		f, err := ckpt.Open(t.Context(), ckpt.Options{Dir: dir, Cluster: cluster, Job: job, Step: steps[i].Name, Reserve: 1})
		if err != nil {
			t.Fatal(err)
		}
		makeGenerations(t, f, 1)
		f.Close()
	}
	b := book{dir: dir, cluster: cluster, job: job, script: "s"}
	for b.attempt = range 2 { // the last one counts
		err := b.change(t.Context(), func(r *record) error {
			r.Steps = nil
			if b.attempt == 1 {
				r.Steps = steps
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func makeGenerations(t *testing.T, f *ckpt.Folder, n int) {
	t.Helper()
	for range n {
		p, err := f.Begin(t.Context(), 0)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.Dir, "count"), []byte("1s"), 0o600)
		}
		if err == nil {
			_, err = p.Commit(t.Context(), ckpt.About{Method: "signal"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSweep(t *testing.T) {
	done := entry{Done: true}
	all := []slurm.Job{{ID: 100}, {ID: 12}, {ID: 30, ArrayID: 30, ArrayTask: "1"}, {ID: 31, ArrayID: 31, ArrayTask: "4-9%2"}}
	for _, test := range []struct {
		name string
		jobs []slurm.Job
		err  error
		want string // what stays
		says string
	}{
		{name: "Slurm is there", jobs: all, want: "11 12 13 14 30_1 31_5 100"},
		{name: "Slurm does not answer", err: errors.New("no answer"), want: "10 11 12 13 14 30_1 30_2 31_5 100", says: "no answer"},
		{name: "Slurm has lost its state", want: "10 11 12 13 14 30_1 30_2 31_5 100", says: "does not show job 100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			leaveJob(t, dir, "10", "c", done, done)    // well, and gone
			leaveJob(t, dir, "11", "c", done, entry{}) // a step has failed
			leaveJob(t, dir, "12", "c", done)          // Slurm knows it: it may be requeued
			leaveJob(t, dir, "13", "c", done, entry{Done: true, KeepAfter: true})
			leaveJob(t, dir, "14", "other", done)
			leaveJob(t, dir, "30_1", "c", done)
			leaveJob(t, dir, "30_2", "c", done) // well, and gone
			leaveJob(t, dir, "31_5", "c", done) // has not begun again
			leaveJob(t, dir, "100", "c", done)  // this one
			s := sweeping{dir, "c", 100, func(context.Context) ([]slurm.Job, error) { return test.jobs, test.err }}
			_, err := s.sweep(t.Context())
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
			var left []string
			for _, job := range strings.Fields("10 11 12 13 14 30_1 30_2 31_5 100") {
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

// What is broken is passed over, and told.
func TestLeftInABrokenFolder(t *testing.T) {
	dir := t.TempDir()
	leaveJob(t, dir, "10", "c", entry{Done: true})
	leaveJob(t, dir, "11", "c", entry{Done: true})
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "job-11", "steps-1.json"), []byte("{"), 0o600), os.Mkdir(filepath.Join(dir, "job-12"), 0o700),
		os.WriteFile(filepath.Join(dir, "job-13"), nil, 0o600), os.Mkdir(filepath.Join(dir, "job-15"), 0o700), syscall.Mkfifo(filepath.Join(dir, "job-15", "steps-0.json"), 0o600), os.Symlink(filepath.Join(dir, "job-10"), filepath.Join(dir, "job-14"))); err != nil {
		t.Fatal(err)
	}
	all, err := LeftIn(t.Context(), dir, 0)
	if err == nil || !strings.Contains(err.Error(), "job-11") || !strings.Contains(err.Error(), "steps-0.json is no record") || len(all) != 1 || all[0].Job != "10" || !all[0].Well {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestLeftInIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		leaveJob(t, dir, fmt.Sprint(i+1), "c")
	}
	for most, want := range map[int]int{0: 5, 3: 3, 9: 5} {
		if all, err := LeftIn(t.Context(), dir, most); err != nil || len(all) != want {
			t.Errorf("of at most %d: %d, %v", most, len(all), err)
		}
	}
}

// An id that is given again while others are swept is not taken from the new job.
func TestRemoveAsksAgain(t *testing.T) {
	begun := entry{Name: "0", Began: time.Now()}
	for name, meanwhile := range map[string]func(dir string) []slurm.Job{
		"Slurm knows it now": func(string) []slurm.Job { return []slurm.Job{{ID: 10}} },
		"a step has begun there": func(dir string) []slurm.Job {
			b := book{dir: dir, cluster: "c", job: "10", script: "s", attempt: 1}
			if err := b.change(t.Context(), func(r *record) error { r.Steps = []entry{begun}; return nil }); err != nil {
				t.Fatal(err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			leaveJob(t, dir, "10", "c", entry{Done: true})
			l, err := leftOf(dir, "10")
			if err != nil {
				t.Fatal(err)
			}
			err = l.Remove(t.Context(), dir, func(context.Context) ([]slurm.Job, error) { return meanwhile(dir), nil })
			if _, serr := os.Stat(filepath.Join(dir, "job-10")); err == nil || serr != nil || !strings.Contains(err.Error(), "stay") {
				t.Errorf("%v, %v", err, serr)
			}
		})
	}
}
