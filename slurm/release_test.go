package slurm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// step is the job as Slurm shows it from a moment on.
type step struct {
	after time.Duration
	job   Job
}

// replay is a fake Slurm that shows the job step by step. A start time takes
// only while the job is PENDING and not Cleaning, as measured.
func replay(steps []step) *fake {
	begin := time.Now()
	var eligible time.Time
	now := func() Job {
		var j Job
		for _, s := range steps {
			if time.Since(begin) >= s.after {
				j = s.job
			}
		}
		if !eligible.IsZero() && j.State == "PENDING" {
			j.Eligible, j.Reason = eligible, ""
		}
		return j
	}
	f := &fake{}
	f.jobs = func() []Job { return []Job{now()} }
	f.answer = func(c []string) (string, string, error) {
		j := now()
		if j.State == "RUNNING" {
			return "", "Job is no longer pending execution for job 7\n", exitError(1)
		}
		if j.State == "PENDING" && j.Reason != "Cleaning" {
			eligible = time.Now()
			if v, ok := strings.CutPrefix(c[3], "starttime=uts"); ok {
				var seconds int64
				for _, d := range v {
					seconds = seconds*10 + int64(d-'0')
				}
				eligible = time.Unix(seconds, 0)
			}
		}
		return "", "", nil
	}
	return f
}

func TestRelease(t *testing.T) {
	second := time.Second
	tests := []struct {
		name  string
		start time.Duration // from now; 0: at once
		steps func(held time.Time) []step
		took  time.Duration // at most
		calls int           // updates
		err   error
	}{
		{"completing, then held", 0, func(held time.Time) []step {
			return []step{
				{0, Job{ID: 7, Restarts: 1, State: "COMPLETING"}},
				{2 * second, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "BeginTime", Eligible: held}}}
		}, 4 * second, 1, nil},
		{"held, reason not yet known", 0, func(held time.Time) []step {
			return []step{{0, Job{ID: 7, Restarts: 1, State: "PENDING", Eligible: held}}}
		}, 2 * second, 1, nil},
		{"cleaning, then held", 0, func(held time.Time) []step {
			return []step{
				{0, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "Cleaning"}},
				{5 * second, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "BeginTime", Eligible: held}}}
		}, 7 * second, 1, nil},
		{"a later start", 600 * second, func(held time.Time) []step {
			return []step{
				{0, Job{ID: 7, Restarts: 1, State: "COMPLETING"}},
				{second, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "BeginTime", Eligible: held}}}
		}, 2 * second, 1, nil},
		{"no hold", 0, func(time.Time) []step {
			return []step{{0, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "Resources", Eligible: time.Now()}}}
		}, second, 0, nil},
		{"an estimate of the start is no hold", 0, func(held time.Time) []step {
			return []step{{0, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "Resources", Eligible: time.Now(), Start: held}}}
		}, second, 0, nil},
		{"held by its user", 0, func(time.Time) []step {
			return []step{{0, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "JobHeldUser"}}}
		}, second, 0, nil},
		{"started already", 0, func(time.Time) []step {
			return []step{{0, Job{ID: 7, Restarts: 1, State: "CONFIGURING"}}}
		}, second, 0, nil},
		{"requeued again", 0, func(held time.Time) []step {
			return []step{
				{0, Job{ID: 7, Restarts: 1, State: "COMPLETING"}},
				{second, Job{ID: 7, Restarts: 2, State: "PENDING", Reason: "BeginTime", Eligible: held}}}
		}, 2 * second, 0, nil},
		{"gone", 0, func(time.Time) []step { return []step{{0, Job{ID: 8}}} }, second, 0, ErrNoJob},
		{"ctx ends", 0, func(time.Time) []step {
			return []step{{0, Job{ID: 7, Restarts: 1, State: "COMPLETING"}}}
		}, 61 * second, 0, context.DeadlineExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				f := replay(tt.steps(begin.Add(121 * second)))
				ctx, cancel := context.WithTimeout(context.Background(), 60*second)
				defer cancel()
				var start time.Time
				if tt.start > 0 {
					start = begin.Add(tt.start)
				}
				err := newFake(f).Release(ctx, 7, 1, start)
				if !errors.Is(err, tt.err) || time.Since(begin) > tt.took || len(f.lines()) != tt.calls {
					t.Errorf("%v after %s and %q; want %v within %s and %d updates", err, time.Since(begin), f.lines(), tt.err, tt.took, tt.calls)
				}
			})
		})
	}
}

// The job starts between our look and our update.
func TestReleaseTooLate(t *testing.T) {
	t.Parallel()
	f := &fake{
		jobs: oneJob(Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "BeginTime"}),
		answer: func([]string) (string, string, error) {
			return "", "Job is no longer pending execution for job 7\n", exitError(1)
		},
	}
	if err := newFake(f).Release(context.Background(), 7, 1, time.Time{}); err != nil {
		t.Errorf("got %v", err)
	}
}

// Only an update of the leader starts a heterogeneous job.
func TestReleaseOfPart(t *testing.T) {
	t.Parallel()
	set := false
	f := &fake{}
	f.jobs = func() []Job {
		held := Job{ID: 6, HetID: 6, Restarts: 1, State: "PENDING", Reason: "BeginTime"}
		if set {
			held.Reason = ""
		}
		return []Job{held, {ID: 7, HetID: 6, Restarts: 1, State: "PENDING"}}
	}
	f.answer = func([]string) (string, string, error) { set = true; return "", "", nil }
	if err := newFake(f).Release(context.Background(), 7, 1, time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantLines(t, f, "scontrol update jobid=6 starttime=now")
}

// TestReleaseStartsInALaterSecond: a job that slurmd was told to end and is
// told to begin in one second has no valid credential, and fails.
func TestReleaseStartsInALaterSecond(t *testing.T) {
	for _, offset := range []time.Duration{0, 300 * time.Millisecond, 990 * time.Millisecond} {
		for _, ahead := range []time.Duration{-1, 200 * time.Millisecond, 0} { // -1: at once; else a start so far ahead, or this moment
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(offset)
				began := time.Now()
				f := replay([]step{{0, Job{ID: 7, Restarts: 1, State: "PENDING", Reason: "BeginTime", Eligible: began.Add(2 * time.Minute)}}})
				answer, set := f.answer, time.Time{}
				f.answer = func(c []string) (string, string, error) {
					set = time.Now()
					return answer(c)
				}
				var start time.Time
				if ahead >= 0 {
					start = began.Add(ahead)
				}
				if err := newFake(f).Release(t.Context(), 7, 1, start); err != nil {
					t.Fatal(err)
				}
				begins := set
				if start.After(set) {
					begins = start
				}
				if begins.Unix() <= began.Unix() || set.Sub(began) > 2*time.Second {
					t.Errorf("pending at %s, let start at %s", began, set)
				}
			})
		}
	}
}
