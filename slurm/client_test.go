package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestSnapshot(t *testing.T) {
	read := func(f *fake) (*Snapshot, error) { return newFake(f).Snapshot(context.Background()) }
	good := &fake{answer: func(c []string) (string, string, error) {
		file := "testdata/24.11/nodes.txt"
		if c[0] == "squeue" {
			return string(capturedJobs(t, "24.11", "jobs.txt")), "", nil
		}
		b, err := os.ReadFile(file)
		return string(b), "", err
	}}
	s, err := read(good)
	if err != nil || len(s.Nodes) != 8 || len(s.Jobs) != 24 || s.Taken.IsZero() {
		t.Fatalf("snapshot %+v, %v", s, err)
	}
	for name, answer := range map[string]func(c []string) (string, string, error){
		"no nodes": func(c []string) (string, string, error) { return "No nodes in the system\n", "", nil },
		"nothing":  func(c []string) (string, string, error) { return "", "", nil },
		"no slurmctld": func(c []string) (string, string, error) {
			return "", "slurm_load_node error: Unable to contact\n", exitError(1)
		},
		"jobs cut off": func(c []string) (string, string, error) {
			if c[0] == "squeue" {
				return "12MARKx", "", nil
			}
			return "NodeName=c1 State=IDLE\n", "", nil
		},
	} {
		if s, err := read(&fake{answer: answer}); err == nil || s != nil {
			t.Errorf("%s: snapshot %+v, %v; want an error", name, s, err)
		}
	}
}

func TestJob(t *testing.T) {
	array := []Job{{ID: 20, ArrayID: 20, ArrayTask: "3"}, {ID: 21, ArrayID: 20, ArrayTask: "1"}}
	c := newFake(&fake{jobs: func() []Job { return array }})
	j, err := c.Job(context.Background(), 20)
	if err != nil || j.ID != 20 || j.ArrayTask != "3" {
		t.Errorf("job 20 = %+v, %v", j, err)
	}
	if _, err := c.Job(context.Background(), 5); !errors.Is(err, ErrNoJob) {
		t.Errorf("job 5: %v, want ErrNoJob", err)
	}
	if all, err := c.JobsOf(context.Background(), 20); err != nil || len(all) != 2 {
		t.Errorf("of job 20: %+v, %v, want both tasks", all, err)
	}
	unknown := newFake(&fake{answer: func([]string) (string, string, error) {
		return "", "slurm_load_jobs error: Invalid job id specified\n", exitError(1)
	}})
	if _, err := unknown.Job(context.Background(), 999); !errors.Is(err, ErrNoJob) || !strings.Contains(err.Error(), "job 999") {
		t.Errorf("job 999: %v, want ErrNoJob", err)
	}
	if all, err := unknown.JobsOf(context.Background(), 999); err != nil || len(all) != 0 {
		t.Errorf("of job 999: %+v, %v, want none", all, err)
	}
	away := newFake(&fake{answer: func([]string) (string, string, error) {
		return "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", exitError(1)
	}})
	if _, err := away.JobsOf(context.Background(), 999); err == nil {
		t.Error("a Slurm that does not answer knows no job")
	}
}

// The mark differs with each reading, or a job's name could hold the next one.
func TestMarkIsNew(t *testing.T) {
	f := &fake{}
	c := New(f)
	for range 2 {
		if _, err := c.Jobs(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	lines := f.lines()
	if lines[0] == lines[1] {
		t.Errorf("the same mark twice: %s", lines[0])
	}
	for _, l := range lines {
		if !strings.Contains(l, "-O JobID:m") {
			t.Errorf("the mark must not begin with a digit, which would be a width: %s", l)
		}
	}
}

// captured in testdata/*/words.txt: what commands say when they refuse.
func TestRefusals(t *testing.T) {
	tests := []struct {
		name, stderr string
		exit         error
		want         error
	}{
		{"no job, squeue", "slurm_load_jobs error: Invalid job id specified", exitError(1), ErrNoJob},
		{"no job, update", "Invalid job id specified for job 999", exitError(1), ErrNoJob},
		{"no job, scancel", "scancel: error: Kill job error on job id 999: Invalid job id specified", exitError(1), ErrNoJob},
		{"no script, exit code 0", "job script retrieval failed: Invalid job id specified", nil, ErrNoJob},
		{"started", "Job is no longer pending execution for job 33", exitError(1), ErrNotPending},
		{"finished", "Job has already finished for job 23", exitError(1), ErrNotPending},
		{"no node, update", "slurm_update error: Invalid node name specified", exitError(1), ErrNoNode},
		{"no node, show", "Node nope not found", exitError(1), ErrNoNode},
		{"node state", "slurm_update error: Invalid node state specified", exitError(1), errNodeState},
		{"log line, exit code 0", "scontrol: error: unpack_msg: deprecated", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newFake(&fake{answer: func([]string) (string, string, error) { return "out", tt.stderr + "\n", tt.exit }})
			_, err := c.run(context.Background(), "scontrol")
			if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestRefused: what Slurm has refused was not done; what it has not answered may have been.
func TestRefused(t *testing.T) {
	for words, want := range map[string]bool{
		"slurm_update error: Invalid partition name specified":                       true,
		"slurm_update error: Access/permission denied":                               true,
		"slurm_update error: Job is no longer pending execution for job 33":          false,
		"slurm_update error: Unable to contact slurm controller (connect failure)":   false,
		"slurm_update error: Socket timed out on send/recv operation":                false,
		"slurm_update error: Zero Bytes were transmitted or received for job id 123": false,
	} {
		c := newFake(&fake{answer: func([]string) (string, string, error) { return "", words + "\n", exitError(1) }})
		if _, err := c.run(t.Context(), "scontrol"); err == nil || Refused(fmt.Errorf("updating: %w", err)) != want {
			t.Errorf("%v", err)
		}
	}
}

// A command that was cut off by ctx is no answer, whatever it printed.
func TestCutOff(t *testing.T) {
	c := newFake(&fake{answer: func([]string) (string, string, error) {
		return "NodeName=c1 State=IDLE\n", "slurm_update error: Invalid node name specified\n", context.DeadlineExceeded
	}})
	if _, err := c.Nodes(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nodes: %v", err)
	}
	err := c.UpdateNodes(context.Background(), NodeUpdate{Nodes: []string{"c1", "c2"}, State: "power_up"})
	var partial *PartialError
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &partial) {
		t.Errorf("update: %v", err)
	}
}

func TestPing(t *testing.T) {
	tests := []struct {
		name, stdout string
		exit         error
		ok           bool
	}{
		{"up", "Slurmctld(primary) at ctl1 is UP\n", nil, true},
		{"backup up", "Slurmctld(primary) at ctl1 is DOWN\nSlurmctld(backup) at ctl2 is UP\n", exitError(1), true},
		{"down", "Slurmctld(primary) at ctl1 is DOWN\n*****\n", exitError(1), false},
		{"no scontrol", "", errors.New("scontrol: not found"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newFake(&fake{answer: func([]string) (string, string, error) { return tt.stdout, "", tt.exit }})
			if err := c.Ping(context.Background()); (err == nil) != tt.ok {
				t.Errorf("ping: %v", err)
			}
		})
	}
}

func TestBatchScriptAndConfig(t *testing.T) {
	f := &fake{answer: func(c []string) (string, string, error) {
		switch strings.Join(c[1:3], " ") {
		case "write batch_script":
			return "#!/bin/bash\nsrun heat\n", "", nil
		case "show config":
			return "Configuration data as of 1795227270\nReturnToService         = 2\n", "", nil
		}
		return "PartitionName=cloud Nodes=c[1-4]\n", "", nil
	}}
	c := newFake(f)
	ctx := context.Background()
	if s, err := c.BatchScript(ctx, 7); err != nil || s != "#!/bin/bash\nsrun heat\n" {
		t.Errorf("script %q, %v", s, err)
	}
	if m, err := c.ShowConfig(ctx); err != nil || m["ReturnToService"] != "2" {
		t.Errorf("config %v, %v", m, err)
	}
	if p, err := c.ShowPartitions(ctx); err != nil || len(p) != 1 || p[0]["Nodes"] != "c[1-4]" {
		t.Errorf("partitions %v, %v", p, err)
	}
	wantLines(t, f, "scontrol write batch_script 7 -", "scontrol show config", "scontrol -o show partitions")
}

// TestWord: what was fatal says why, and the log before it does not.
func TestWord(t *testing.T) {
	for said, want := range map[string]string{
		"scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nscontrol: error: fetch_config: DNS SRV lookup failed\n" +
			"scontrol: error: _establish_config_source: failed to fetch config\nscontrol: fatal: Could not establish a configuration source\n": "Could not establish a configuration source",
		"slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n": "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)",
		"": "",
	} {
		if got := Word([]byte(said)); got != want {
			t.Errorf("%q of %q", got, said)
		}
	}
}
