package slurm

import (
	"errors"
	"strings"
	"testing"
)

// TestCancelRunning, and RequeueMeant: what waits is left alone, though it ran a moment ago; a job that is gone is no error.
func TestCancelRunning(t *testing.T) {
	first := func(j Job) bool { return j.Restarts == 0 }
	for _, c := range []struct {
		name, want string
		jobs       []Job
	}{
		{"it runs", "scancel 7", []Job{{ID: 7, State: "RUNNING"}}},
		{"its nodes boot", "scancel 7", []Job{{ID: 7, State: "CONFIGURING"}}},
		{"it waits", "", []Job{{ID: 7, State: "PENDING"}}},
		{"a task", "scancel 4_9", []Job{{ID: 7, ArrayID: 4, ArrayTask: "9", State: "RUNNING"}}},
		{"a part", "scancel 6", []Job{{ID: 7, HetID: 6, State: "RUNNING"}}},
		{"it is gone", "", nil},
		{"another attempt runs", "", []Job{{ID: 7, State: "RUNNING", Restarts: 1}}},
		{"a part is meant", "scancel 7", []Job{{ID: 7, HetID: 7, State: "RUNNING", Restarts: 1}, {ID: 8, HetID: 7, State: "RUNNING"}}},
		{"another task is", "", []Job{{ID: 7, ArrayID: 7, ArrayTask: "2", State: "RUNNING", Restarts: 1}, {ID: 8, ArrayID: 7, ArrayTask: "1", State: "RUNNING"}}},
	} {
		f := &fake{jobs: func() []Job { return c.jobs }}
		if err := newFake(f).CancelRunning(t.Context(), 7, first); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(f.lines(), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		name, want string
		jobs       []Job
	}{
		{"its nodes boot", "scontrol requeue incomplete 7", []Job{{ID: 7, State: "CONFIGURING"}}},
		{"it waits", "", []Job{{ID: 7, State: "PENDING"}}},
		{"a task", "scontrol requeue incomplete 4_9", []Job{{ID: 7, ArrayID: 4, ArrayTask: "9", State: "CONFIGURING"}}},
		{"a part", "scontrol requeue incomplete 6", []Job{{ID: 7, HetID: 6, State: "CONFIGURING"}}},
		{"it is gone", "", nil},
		{"its next attempt", "", []Job{{ID: 7, State: "CONFIGURING", Restarts: 1}}},
	} {
		f := &fake{jobs: func() []Job { return c.jobs }}
		if err := newFake(f).RequeueMeant(t.Context(), 7, first); err != nil {
			t.Errorf("requeue, %s: %v", c.name, err)
		}
		if got := strings.Join(f.lines(), "; "); got != c.want {
			t.Errorf("requeue, %s: %q, want %q", c.name, got, c.want)
		}
	}
	f := &fake{jobs: func() []Job { return []Job{{ID: 7, State: "RUNNING"}} }, answer: func([]string) (string, string, error) {
		return "", "scancel: error: Kill job error on job id 7: Access/permission denied", exitError(1)
	}}
	if err := newFake(f).CancelRunning(t.Context(), 7, first); err == nil || errors.Is(err, ErrNoJob) {
		t.Errorf("a refusal: %v", err)
	}
}
