package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestUpdateNodesArguments(t *testing.T) {
	f := &fake{}
	err := newFake(f).UpdateNodes(context.Background(), NodeUpdate{
		Nodes: []string{"c2", "c1"}, State: "power_up", Reason: "line one\nline \"two\" $(reboot)",
		Addrs: []string{"10.0.0.2", "10.0.0.1"}, Hostnames: []string{"h2", "h1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, f, `scontrol update nodename=c2,c1 nodeaddr=10.0.0.2,10.0.0.1 nodehostname=h2,h1 state=power_up reason=line one line "two" $(reboot)`)
	if n := len(f.commands[0]); n != 7 {
		t.Errorf("%d arguments: a text with spaces must stay one", n)
	}
}

// 30,000 nodes make 300 kB of names: every argument stays below 128 KiB, and
// all nodes come once, in order, beside their own address.
func TestUpdateNodesCut(t *testing.T) {
	f := &fake{}
	u := NodeUpdate{Nodes: manyNodes(30000)}
	for i := range u.Nodes {
		u.Addrs = append(u.Addrs, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if err := newFake(f).UpdateNodes(context.Background(), u); err != nil {
		t.Fatal(err)
	}
	var nodes, addrs []string
	for _, c := range f.commands {
		for _, arg := range c {
			if len(arg) >= 128<<10 {
				t.Errorf("an argument of %d bytes", len(arg))
			}
		}
		nodes = append(nodes, strings.Split(strings.TrimPrefix(c[2], "nodename="), ",")...)
		addrs = append(addrs, strings.Split(strings.TrimPrefix(c[3], "nodeaddr="), ",")...)
	}
	if !slices.Equal(nodes, u.Nodes) || !slices.Equal(addrs, u.Addrs) {
		t.Errorf("%d nodes and %d addresses in %d calls are not what was asked", len(nodes), len(addrs), len(f.commands))
	}
	if len(f.commands) > 4 {
		t.Errorf("%d calls for 30,000 nodes", len(f.commands))
	}
}

func TestUpdateNodesRefused(t *testing.T) {
	for name, u := range map[string]NodeUpdate{
		"all":               {Nodes: []string{"ALL"}},
		"empty name":        {Nodes: []string{""}},
		"a list":            {Nodes: []string{"c[1-9]"}},
		"two names":         {Nodes: []string{"c1,c2"}},
		"twice":             {Nodes: []string{"c1", "c1"}},
		"too few addresses": {Nodes: []string{"c1", "c2"}, Addrs: []string{"10.0.0.1"}},
		"empty address":     {Nodes: []string{"c1"}, Addrs: []string{""}},
		"host with space":   {Nodes: []string{"c1"}, Hostnames: []string{"a b"}},
	} {
		f := &fake{}
		if err := newFake(f).UpdateNodes(context.Background(), u); err == nil || len(f.commands) > 0 {
			t.Errorf("%s: %v, ran %v", name, err, f.lines())
		}
	}
	f := &fake{}
	if err := newFake(f).UpdateNodes(context.Background(), NodeUpdate{State: "down"}); err != nil || len(f.commands) > 0 {
		t.Errorf("no node: %v, ran %v", err, f.lines())
	}
}

// slurmSim refuses a call as slurmctld does: with one word for the whole list.
func slurmSim(bad map[string]string, applied map[string]int) func(c []string) (string, string, error) {
	return func(c []string) (string, string, error) {
		names := strings.Split(strings.TrimPrefix(c[2], "nodename="), ",")
		for _, n := range names {
			if bad[n] != "" {
				return "", "slurm_update error: " + bad[n] + "\n", exitError(1)
			}
		}
		for _, n := range names {
			applied[n]++
		}
		return "", "", nil
	}
}

func TestUpdateNodesPartialFailure(t *testing.T) {
	u := NodeUpdate{Nodes: manyNodes(1000), State: "power_down_force"}
	bad := map[string]string{"node-00007": "Invalid node name specified", "node-00600": "Invalid node state specified"}
	applied := map[string]int{}
	f := &fake{answer: slurmSim(bad, applied)}
	err := newFake(f).UpdateNodes(context.Background(), u)
	var partial *PartialError
	if !errors.As(err, &partial) || len(partial.Failed) != 2 {
		t.Fatalf("got %v, want a PartialError for 2 nodes", err)
	}
	for n, why := range bad {
		if !strings.Contains(partial.Failed[n], why) {
			t.Errorf("%s: %q, want %q", n, partial.Failed[n], why)
		}
	}
	if len(applied) != 998 {
		t.Errorf("%d nodes updated, want 998", len(applied))
	}
	if len(f.commands) > 45 {
		t.Errorf("%d calls to find 2 nodes of 1,000", len(f.commands))
	}
	if !strings.Contains(err.Error(), "node-00007") || !strings.Contains(err.Error(), "1 more") {
		t.Errorf("error text %q", err)
	}
}

// Trouble that is not a node's must not be tried again node by node.
func TestUpdateNodesWholeFailure(t *testing.T) {
	f := &fake{answer: func([]string) (string, string, error) {
		return "", "slurm_update error: Unable to contact slurm controller (connect failure)\n", exitError(1)
	}}
	err := newFake(f).UpdateNodes(context.Background(), NodeUpdate{Nodes: manyNodes(1000), State: "drain", Reason: "x"})
	var partial *PartialError
	if err == nil || errors.As(err, &partial) || len(f.commands) != 1 || !strings.Contains(err.Error(), "Unable to contact") {
		t.Errorf("%v after %d calls", err, len(f.commands))
	}
}

// Resume fails for a list with a node that needs none, and has then resumed
// the others; these refuse the second try.
func TestUpdateNodesResumeTwice(t *testing.T) {
	state := map[string]string{"c1": "IDLE", "c2": "DOWN", "c3": "IDLE+POWERING_DOWN+DRAIN"}
	f := &fake{answer: func(c []string) (string, string, error) {
		if c[2] == "show" {
			return "NodeName=" + c[4] + " State=" + state[c[4]] + "\n", "", nil
		}
		failed := false
		for n := range strings.SplitSeq(strings.TrimPrefix(c[2], "nodename="), ",") {
			if state[n] == "DOWN" {
				state[n] = "IDLE"
			} else {
				failed = true
			}
		}
		if failed {
			return "", "slurm_update error: Invalid node state specified\n", exitError(1)
		}
		return "", "", nil
	}}
	err := newFake(f).UpdateNodes(context.Background(), NodeUpdate{Nodes: []string{"c1", "c2", "c3"}, State: "resume"})
	var partial *PartialError
	if !errors.As(err, &partial) || !slices.Equal(slices.Collect(maps.Keys(partial.Failed)), []string{"c3"}) {
		t.Errorf("got %v, want c3 alone to have failed", err)
	}
}

func TestJobCommands(t *testing.T) {
	ctx := context.Background()
	text := "burst: no capacity\nsince 03:00"
	start := time.Unix(1795300000, 1)
	plain := Job{ID: 7, State: "RUNNING"}
	tests := []struct {
		name string
		job  Job
		do   func(c *Client) error
		want string
	}{
		{"comment", plain, func(c *Client) error { return c.UpdateJob(ctx, 7, JobUpdate{AdminComment: &text}) },
			"scontrol update jobid=7 admincomment=burst: no capacity since 03:00"},
		{"start, rounded up", plain, func(c *Client) error { return c.UpdateJob(ctx, 7, JobUpdate{Start: &start}) },
			"scontrol update jobid=7 starttime=uts1795300001"},
		{"start now", plain, func(c *Client) error { return c.UpdateJob(ctx, 7, JobUpdate{Start: &time.Time{}}) },
			"scontrol update jobid=7 starttime=now"},
		{"requeue", plain, func(c *Client) error { return c.Requeue(ctx, 7) }, "scontrol requeue 7"},
		{"requeue of what runs", plain, func(c *Client) error { return c.RequeueRunning(ctx, 7) }, "scontrol requeue incomplete 7"},
		{"requeue of the array's first task", Job{ID: 7, ArrayID: 7, ArrayTask: "3"}, func(c *Client) error { return c.Requeue(ctx, 7) },
			"scontrol requeue 7_3"},
		{"update of an array's rest", Job{ID: 7, ArrayID: 7, ArrayTask: "3,5-7%2"}, func(c *Client) error { return c.UpdateJob(ctx, 7, JobUpdate{AdminComment: &text}) },
			"scontrol update jobid=7_[3,5-7] admincomment=burst: no capacity since 03:00"},
		{"requeue of a part", Job{ID: 7, HetID: 6}, func(c *Client) error { return c.Requeue(ctx, 7) }, "scontrol requeue 6"},
		{"signal to the steps", plain, func(c *Client) error { return c.Signal(ctx, 7, Signal{Name: "USR1"}) }, "scancel --signal=USR1 7"},
		{"signal to the script", plain, func(c *Client) error { return c.Signal(ctx, 7, Signal{Name: "USR1", Batch: true}) }, "scancel --signal=USR1 --batch 7"},
		{"signal to all", Job{ID: 7, ArrayID: 4, ArrayTask: "9"}, func(c *Client) error { return c.Signal(ctx, 7, Signal{Name: "TERM", Full: true}) },
			"scancel --signal=TERM --full 4_9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{jobs: oneJob(tt.job)}
			if err := tt.do(newFake(f)); err != nil {
				t.Fatal(err)
			}
			wantLines(t, f, tt.want)
		})
	}
}

func TestJobCommandErrors(t *testing.T) {
	ctx := context.Background()
	f := &fake{jobs: oneJob(Job{ID: 7}), answer: func(c []string) (string, string, error) {
		return "", "Job is pending execution for job 7\n", exitError(1)
	}}
	c := newFake(f)
	if err := c.Requeue(ctx, 7); err != nil {
		t.Errorf("requeue of a pending job: %v", err)
	}
	if err := c.Requeue(ctx, 8); !errors.Is(err, ErrNoJob) {
		t.Errorf("requeue of an unknown job: %v", err)
	}
	if err := c.Signal(ctx, 7, Signal{Name: "USR1; reboot"}); err == nil {
		t.Error("a signal's name with a command was taken")
	}
	if err := c.UpdateJob(ctx, 8, JobUpdate{}); err != nil {
		t.Errorf("an update of nothing: %v", err)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{"a\nb\tc\x00d": "a b c d", "ü…": "ü…", "\xff": "?"} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
	if n := len(printable(strings.Repeat("ü", 9000))); n > 4096 {
		t.Errorf("%d bytes", n)
	}
}
