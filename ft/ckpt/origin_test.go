package ckpt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEarlier(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	for _, test := range []struct {
		name    string
		job     Identity
		record  Origin
		written time.Time
		want    bool
	}{
		{"nothing is known", Identity{}, Origin{}, at(-9999), false},
		{"its own, of attempt 0", Identity{Origin{"a", now}, now}, Origin{"a", now}, at(1), false},
		{"its own, of a later attempt", Identity{Origin{"a", at(60)}, now}, Origin{"a", at(30)}, at(31), false},
		{"another script", Identity{Origin{"a", now}, now}, Origin{"b", now}, at(1), true},
		{"another script, and no times", Identity{Origin: Origin{Script: "a"}}, Origin{Script: "b"}, at(1), true},
		{"submitted before the job was", Identity{Origin{"a", at(60)}, now}, Origin{"a", at(-1)}, at(-1), true},
		{"by slurmctld's clock alone", Identity{Origin{"a", at(60)}, now}, Origin{"a", at(-1)}, at(20), true},
		{"the job's first submission is not known", Identity{Origin: Origin{"a", at(60)}}, Origin{"a", at(-1)}, at(-1), false},
		{"the record has no time of Slurm's, clocks differ", Identity{First: now}, Origin{}, at(-4), false},
		{"the record has no time of Slurm's, and is too old", Identity{First: now}, Origin{}, at(-6), true},
		{"the script is not known now", Identity{First: now}, Origin{"a", at(1)}, at(1), false},
		{"the script was not known then", Identity{Origin{"a", now}, now}, Origin{Submitted: now}, at(1), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.job.Earlier(test.record, test.written); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// An attempt of which none before was here does not take what an earlier job of its
// id has left; nor is it cut off by that job's later attempts.
func TestAnEarlierJobOfTheSameID(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	for _, test := range []struct {
		name    string
		attempt int // of the job that begins; the earlier one had its generations in attempts 0 and 2
		job     Identity
		moved   bool
	}{
		{"attempt 0", 0, Identity{Origin{"a", past.Add(time.Minute)}, past.Add(time.Minute)}, true},
		{"a later attempt, of which burstd saw the first", 1, Identity{Origin{"a", past.Add(time.Hour)}, past.Add(time.Minute)}, true},
		{"a later attempt with another script", 3, Identity{Origin: Origin{"b", past.Add(time.Hour)}}, true},
		{"a later attempt of the same job", 3, Identity{Origin{"a", past.Add(time.Hour)}, past}, false},
		{"a later attempt, and burstd is away", 3, Identity{Origin: Origin{"a", past.Add(time.Hour)}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, attempt := range []int{0, 2} {
				o := optionsIn(dir)
				o.Attempt, o.Identity = attempt, Identity{Origin{"a", past.Add(time.Duration(attempt) * time.Second)}, past}
				mustWrite(t, openWith(t, o), 1)
			}
			o := optionsIn(dir)
			o.Attempt, o.Identity = test.attempt, test.job
			f := openWith(t, o)
			if !test.moved {
				wantNewest(t, f, ID{2, 2})
				if f.Moved() != "" {
					t.Errorf("moved to %s", f.Moved())
				}
				return
			}
			wantStates(t, f, "")
			if g := mustWrite(t, f, 1); g.ID() != (ID{test.attempt, 1}) {
				t.Errorf("the first of its own is %s", g.ID())
			}
			name := filepath.Base(f.Moved())
			if !strings.HasPrefix(name, "old-") || !strings.HasSuffix(name, "-step-0") {
				t.Errorf("moved to %q", f.Moved())
			}
			for _, gen := range []string{"attempt-0/gen-1", "attempt-2/gen-2"} {
				if _, err := os.Stat(filepath.Join(f.Moved(), gen, manifestName)); err != nil {
					t.Error(err)
				}
			}
			// The next one knows them for its own, though burstd be away.
			next := optionsIn(dir)
			next.Attempt, next.Identity = test.attempt+1, Identity{Origin: Origin{test.job.Script, past.Add(2 * time.Hour)}}
			wantNewest(t, openWith(t, next), ID{test.attempt, 1})
		})
	}
}
