package slurmtest_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func TestNodeStates(t *testing.T) {
	const (
		drained = "IDLE+CLOUD+DRAIN+POWERED_DOWN"
		resumed = "IDLE+CLOUD+POWERED_DOWN+NOT_RESPONDING"
		refused = "slurm_update error: Invalid node state specified\n"
	)
	tests := []struct {
		name   string
		states []string // one update each, of the powered-down c1
		want   string
		stderr string // of the last
	}{
		{"drain", []string{"drain"}, drained, ""},
		{"undrain", []string{"drain", "undrain"}, off, ""},
		{"drain, resume", []string{"drain", "resume"}, resumed, ""},
		{"resume of what is up", []string{"resume"}, off, refused},
		{"down", []string{"down"}, "DOWN+CLOUD+POWERED_DOWN", ""},
		{"down, resume", []string{"down", "resume"}, resumed, ""},
		{"drain, down, idle", []string{"drain", "down", "idle"}, off, ""},
		{"idle", []string{"idle"}, off, ""},
		{"power_up", []string{"power_up"}, "IDLE+CLOUD+POWER_UP+POWERED_DOWN", ""},
		{"down, power_up", []string{"down", "power_up"}, "DOWN+CLOUD+POWER_UP+POWERED_DOWN", ""},
		{"power_down", []string{"power_down"}, "IDLE+CLOUD+POWER_DOWN", ""},
		{"power_down_asap", []string{"power_down_asap"}, "IDLE+CLOUD+DRAIN+POWER_DOWN", ""},
		{"down, power_down_force", []string{"down", "power_down_force"}, "DOWN+CLOUD+POWER_DOWN", ""},
		{"not a state", []string{"bogus"}, off, "Invalid input: state=bogus\nRequest aborted\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, slurmtest.Options{}, func(w *world) {
				var stderr string
				for _, s := range test.states {
					_, stderr, _ = w.run("scontrol update nodename=c1 reason=test state=" + s)
				}
				w.wantNodes(test.want, off)
				if stderr != test.stderr {
					t.Errorf("stderr %q, want %q", stderr, test.stderr)
				}
			})
		})
	}
}

func TestNodeChanges(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		job := w.Submit(slurmtest.Job{Requeue: true})
		w.pass(5 * time.Second)
		w.must("scontrol update nodename=c1 state=down reason=broken")
		w.wantNodes("DOWN+CLOUD")
		w.wantJob(job, "PENDING", "None", 1)
		w.must("scontrol update nodename=c1 state=resume")
		w.wantNodes("IDLE+CLOUD+NOT_RESPONDING")
		w.pass(time.Second)
		w.wantNodes(idle) // a ping
		w.must("scontrol update nodename=c1 state=power_down")
		w.pass(time.Second)
		w.wantNodes(goingDown)
		w.must("scontrol update nodename=c1 state=resume")
		w.wantNodes(off)
	})
	bubble(t, slurmtest.Options{ReturnToService: 2}, func(w *world) {
		w.must("scontrol update nodename=c1 state=power_up")
		w.pass(5 * time.Second)
		w.must("scontrol update nodename=c1 state=down reason=broken")
		w.pass(time.Second)
		w.wantNodes(idle) // its slurmd is well, so it is back
	})
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		name, line, stderr string
		c1, c2             string
	}{
		{"in order", "nodename=c2,c1 nodeaddr=10.0.0.2,10.0.0.1 nodehostname=b,a", "", "10.0.0.1", "10.0.0.2"},
		{"count differs", "nodename=c1,c2 nodeaddr=10.0.0.1", "slurm_update error: Invalid node name specified\n", "c1", "c2"},
		{"one unknown", "nodename=c1,zz,c2 nodeaddr=10.0.0.1,10.0.0.9,10.0.0.2", "slurm_update error: Invalid node name specified\n", "10.0.0.1", "10.0.0.2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, slurmtest.Options{}, func(w *world) {
				_, stderr, err := w.run("scontrol update " + test.line)
				if stderr != test.stderr || (err == nil) != (stderr == "") {
					t.Errorf("%v: %q, want %q", err, stderr, test.stderr)
				}
				if w.Addr("c1") != test.c1 || w.Addr("c2") != test.c2 {
					t.Errorf("c1 is %s, c2 %s", w.Addr("c1"), w.Addr("c2"))
				}
			})
		})
	}
}

// TestMessages wants the words of the real commands: job 1 runs, 2 has ended,
// 3 may not be requeued, 4 is pending, 9 is unknown.
func TestMessages(t *testing.T) {
	tests := []struct {
		line, out, stderr string
		code              int
	}{
		{"scontrol ping", "Slurmctld(primary) at ctl is UP\n", "", 0},
		{"scontrol requeue 9", "", "Invalid job id specified for job 9\n", 1},
		{"scontrol requeue 3", "", "Requested operation is presently disabled for job 3\n", 1},
		{"scontrol requeue 4", "", "Job is pending execution for job 4\n", 1},
		{"scontrol requeue incomplete 2", "", "", 0}, // has ended, and stays so
		{"scontrol requeue incomplete 9", "", "Invalid job id specified for job 9\n", 1},
		{"scontrol update jobid=9 admincomment=x", "", "Invalid job id specified for job 9\n", 1},
		{"scontrol update jobid=2 admincomment=x", "", "Job has already finished for job 2\n", 1},
		{"scontrol update jobid=1 starttime=now", "", "Job is no longer pending execution for job 1\n", 1},
		{"scontrol update jobid=4", "", "No changes specified\n", 1},
		{"scontrol update nodename=c1 state=down", "", "You must specify a reason when DOWNING or DRAINING a node. Request denied\n", 1},
		{"scontrol write batch_script 1 -", "#!/bin/sh\n", "", 0},
		{"scontrol write batch_script 9 -", "", "job script retrieval failed: Invalid job id specified\n", 0},
		{"scontrol -o show node zz", "Node zz not found\n", "", 1},
		{"scontrol -o show job 9", "", "slurm_load_jobs error: Invalid job id specified\n", 1},
		{"squeue -h -j 9 -O JobID:@", "", "slurm_load_jobs error: Invalid job id specified\n", 1},
		{"squeue -h -O JobID:@,State:@", "1@RUNNING@\n3@RUNNING@\n4@PENDING@\n", "", 0},
		{"squeue -h -t all -j 2 -O JobID:@,exit_code:@", "2@768@\n", "", 0},
		{"squeue -h -t pending -O NodeList:@,BatchHost:@,StartTime:@,EndTime:@", "@n/a@N/A@NONE@\n", "", 0},
		{"scontrol -o show node c[1", "Node c[1 not found\n", "", 1},
		{"scontrol update nodename=c[1 nodeaddr=x", "", "slurm_update error: Invalid node name specified\n", 1},
		{"scontrol update jobid=4 starttime=soon", "", "Invalid time specification (pos=0): soon\n", 1},
		{"scontrol update jobid=x starttime=now", "", "Invalid job id specified for job x\n", 1},
		{"scontrol update nodename", "", "Invalid input: nodename\nRequest aborted\n", 1},
		{"scancel 9", "", "", 0},
		{"scancel --signal=USR1 9", "", "scancel: error: Kill job error on job id 9: Invalid job id specified\n", 1},
	}
	bubble(t, slurmtest.Options{}, func(w *world) {
		w.Submit(slurmtest.Job{Script: "#!/bin/sh\n", Requeue: true})
		w.Submit(slurmtest.Job{Duration: time.Second, ExitCode: 3})
		w.Submit(slurmtest.Job{})
		w.pass(10 * time.Second)
		w.Submit(slurmtest.Job{Nodes: 3, Requeue: true})
		for _, test := range tests {
			out, stderr, err := w.run(test.line)
			code := 0
			var exit interface{ ExitCode() int }
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			}
			if out != test.out || stderr != test.stderr || code != test.code {
				t.Errorf("%s\n%q, %q, %d, want\n%q, %q, %d", test.line, out, stderr, code, test.out, test.stderr, test.code)
			}
		}
		for _, line := range []string{"sinfo", "scontrol", "scontrol reboot c1", "scontrol update nodename=c1 weight=2",
			"scontrol update jobid=4 priority=1", "scontrol update reservation=x users=y", "squeue -i 2", "squeue -h -O Foo:@", "scancel --me"} {
			_, _, err := w.run(line)
			var exit *slurmtest.ExitError
			if err == nil || errors.As(err, &exit) {
				t.Errorf("%s: %v, want an error that is no exit", line, err)
			}
		}
	})
}

// TestClient reads the controller with the real client.
func TestClient(t *testing.T) {
	bubble(t, slurmtest.Options{OnPrem: []string{"o1"}, CPUs: 8, Memory: 32000}, func(w *world) {
		ctx := w.t.Context()
		now := time.Now()
		w.Submit(slurmtest.Job{Name: "a b", User: "ann", UID: 1001, Account: "phys", Nodes: 2, Requeue: true, Comment: "burst: x=1"})
		w.Submit(slurmtest.Job{Nodes: 9})
		w.pass(10 * time.Second)
		if err := w.client.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: []string{"c1", "c2"}, Addrs: []string{"10.0.0.1", "10.0.0.2"}, Reason: "two words"}); err != nil {
			t.Error(err)
		}
		comment := "because of = signs"
		if err := w.client.UpdateJob(ctx, 1, slurm.JobUpdate{AdminComment: &comment}); err != nil {
			t.Error(err)
		}
		s, err := w.client.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n := s.Nodes["c2"]
		if n.Addr != "10.0.0.2" || n.Hostname != "c2" || n.State.String() != allocated || n.CPUs != 8 || n.AllocCPUs != 8 ||
			n.RealMemory != 32000 || !strings.HasPrefix(n.Reason, "two words") || !n.BootTime.After(now) || len(s.Nodes) != 4 {
			t.Errorf("%d nodes, c2 is %+v", len(s.Nodes), n)
		}
		j := s.Jobs[1]
		if j.Name != "a b" || j.User != "ann" || j.UID != 1001 || j.Account != "phys" || j.State != "RUNNING" || !j.Requeue || !j.Batch ||
			j.NumNodes != 2 || j.Nodes != "c[1-2]" || j.BatchHost != "c1" || j.Comment != "burst: x=1" || j.AdminComment != comment ||
			!j.Submitted.Equal(now) || !j.End.IsZero() || len(s.Jobs) != 2 {
			t.Errorf("%d jobs, 1 is %+v", len(s.Jobs), j)
		}
		var partial *slurm.PartialError
		err = w.client.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: []string{"c1", "zz", "c3"}, State: "drain", Reason: "x"})
		if !errors.As(err, &partial) || len(partial.Failed) != 1 || partial.Failed["zz"] == "" {
			t.Errorf("one unknown node of three: %v", err)
		}
		if _, err := w.client.Job(ctx, 9); !errors.Is(err, slurm.ErrNoJob) {
			t.Errorf("unknown job: %v", err)
		}
		partitions, err := w.client.ShowPartitions(ctx)
		if err != nil || len(partitions) != 2 || partitions[0]["Nodes"] != "c[1-3]" || partitions[0]["SuspendTime"] != "600" {
			t.Errorf("partitions %v, %v", partitions, err)
		}
		config, err := w.client.ShowConfig(ctx)
		if err != nil || config["SLURM_VERSION"] != "22.05.8" {
			t.Errorf("config %v, %v", config, err)
		}
	})
}

func TestShowJob(t *testing.T) {
	bubble(t, slurmtest.Options{}, func(w *world) {
		if out, _, _ := w.run("scontrol -o show jobs"); out != "No jobs in the system\n" {
			t.Errorf("without jobs: %q", out)
		}
		w.Submit(slurmtest.Job{Nodes: 2, Requeue: true, Comment: "hers"})
		w.pass(10 * time.Second)
		w.must("scontrol update jobid=1 admincomment=ours")
		out, _, _ := w.run("scontrol -o show job 1")
		for _, want := range []string{" JobState=RUNNING Reason=None ", " RunTime=00:00:07 ", " NodeList=c[1-2] BatchHost=c1 NumNodes=2 ",
			" AdminComment=ours  Comment=hers ", " TRES=cpu=4,mem=2000M,node=2,billing=4 "} {
			if !strings.Contains(out, want) {
				t.Errorf("%q lacks %q", out, want)
			}
		}
		w.must("scontrol requeue 1")
		if out, _, _ = w.run("scontrol -o show job 1"); !strings.Contains(out, " JobState=COMPLETING Reason=None ") {
			t.Error(out)
		}
		w.pass(time.Second)
		out, _, _ = w.run("scontrol -o show job 1")
		for _, want := range []string{"JobId=1 JobName=job UserId=root(0) ", " JobState=PENDING Reason=BeginTime ", " Requeue=1 Restarts=1 ",
			" StartTime=" + unix(time.Now().Add(120*time.Second+500*time.Millisecond)) + " EndTime=Unknown ", " NodeList= NumNodes=2 NumCPUs=4 "} {
			if !strings.Contains(out, want) {
				t.Errorf("%q lacks %q", out, want)
			}
		}
	})
}
