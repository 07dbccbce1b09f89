package power

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestForgotten: a slurmctld that was killed has a job's earlier start, and
// what the job was told with it; then it is told again, and only then.
func TestForgotten(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	start := now.Add(-10 * time.Second)
	told := func(at time.Time) string { return HeldText + "no capacity; " + startText(at) }
	for _, tt := range []struct {
		name, state, comment string
		hold                 Hold
		want                 bool
	}{
		{"as it was told", "PENDING", told(start), Hold{Start: start, Released: true}, false},
		{"as it was told, by a cloud's clock", "PENDING", told(start), Hold{Start: start.In(time.FixedZone("", 3600)), Released: true}, false},
		{"an earlier start", "PENDING", told(now.Add(9 * time.Minute)), Hold{Start: start, Released: true}, true},
		{"never told", "PENDING", "", Hold{Start: start, Released: true}, true},
		{"another's word", "PENDING", "burst: node c1 was taken back by the cloud", Hold{Start: start, Released: true}, false},
		{"an admin's word", "PENDING", "see me", Hold{Start: start, Released: true}, false},
		{"it runs", "RUNNING", told(now.Add(9 * time.Minute)), Hold{Start: start, Released: true}, false},
		{"still to be told", "PENDING", "", Hold{Start: start}, false},
		{"long ago", "PENDING", "", Hold{Start: now.Add(-time.Hour), Released: true}, false},
		{"of when it was moved", "PENDING", MovedText + "small: goes also to cloud", Hold{Start: now.Add(time.Minute), Released: true}, true},
		{"moved back since then", "PENDING", MovedText + "small is gone; back to main", Hold{Start: now.Add(time.Minute), Released: true}, false},
		{"refused by a budget, and moved since then", "PENDING", MovedText + "small: goes also to cloud", Hold{Start: now.Add(time.Minute), Released: true, Why: overBudget + "x"}, false},
		{"of when its nodes were ordered", "PENDING", BootText + "2 of pool p", Hold{Start: now.Add(time.Minute), Released: true}, true},
		{"of when a rule could not move it", "PENDING", KeptText + "launches are paused", Hold{Start: now.Add(time.Minute), Released: true}, true},
		{"a rule could not move it since then", "PENDING", KeptText + "launches are paused", Hold{Start: start, Released: true}, false},
		{"moved since then", "PENDING", MovedText + "small: goes also to cloud", Hold{Start: start, Released: true}, false},
		{"its start is to come", "PENDING", "", Hold{Start: now.Add(time.Minute), Released: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.hold.Job = 7
			m := newMemory(State{Holds: []Hold{tt.hold}})
			var c Change
			forgotten(&c, m, &slurm.Snapshot{Jobs: map[uint32]slurm.Job{7: {ID: 7, State: tt.state, AdminComment: tt.comment}}}, now)
			if got := len(c.Holds) == 1; got != tt.want || got && c.Holds[0].Released {
				t.Errorf("told again: %+v, want %v", c.Holds, tt.want)
			}
		})
	}
	var c Change
	forgotten(&c, newMemory(State{Holds: []Hold{{Job: 8, Start: start, Released: true}}}), &slurm.Snapshot{}, now)
	if !c.Empty() {
		t.Errorf("a job that Slurm does not know is told: %+v", c)
	}
	left := Hold{Job: 7, Start: now.Add(time.Hour), Released: true}
	m := newMemory(State{Holds: []Hold{left}})
	m.placed[7] = left
	forgotten(&c, m, &slurm.Snapshot{Jobs: map[uint32]slurm.Job{7: {ID: 7, State: "PENDING"}}}, now)
	if !c.Empty() {
		t.Errorf("a job that has its place at the site is told: %+v", c)
	}
}

// TestUsersFindWhatTheyAreTold: docs/user.md has a row for each of the ways in which it begins.
func TestUsersFindWhatTheyAreTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/user.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{HeldText, waitsText, endedText, MovedText, BootText, KeptText, AwayText, quietText, budgetText} {
		if !strings.Contains(string(page), "\n| `"+words) {
			t.Errorf("no row begins with %q", words)
		}
	}
}
