package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// leaving is a past in which burstd also sees to what jobs leave behind.
type leaving struct {
	*past
	after   afterJobs
	site    []directive.Layer
	failed  int             // rounds
	planned map[string]bool // nodes that Slurm says to have planned for a job
}

// restart has a new burstd on the same journal.
func (l *leaving) restart() {
	l.Helper()
	l.past.restart()
	l.client, l.journal = slurm.New(l.Controller), l.store
	l.cfg = &config.Config{Checkpoint: config.Checkpoint{Layers: l.site}}
	l.watcher = slurm.NewWatcher(func(ctx context.Context) (*slurm.Snapshot, error) {
		snap, err := l.client.Snapshot(ctx)
		for name := range l.planned {
			n := snap.Nodes[name]
			n.State.Flags = append(n.State.Flags, "PLANNED")
			snap.Nodes[name] = n
		}
		return snap, err
	}, minGap)
	l.engine = engineOf(l.T, power.Config{}, power.State{})
	l.after = afterJobs{Daemon: l.Daemon}
}

// pass lets time pass, with a look at Slurm every 5 s.
func (l *leaving) pass(d time.Duration) {
	l.Helper()
	for end := time.Now().Add(d); ; time.Sleep(min(5*time.Second, time.Until(end))) {
		l.past.pass(0)
		if _, err := l.after.round(l.Context()); err != nil {
			l.failed++
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// text has the power_downs, as seconds and nodes, and the events, as jobs and nodes.
func (l *leaving) text(begun time.Time) string {
	l.Helper()
	var all []string
	for _, c := range l.Calls() {
		if line := strings.Join(c.Args, " "); strings.Contains(line, "state=") {
			all = append(all, fmt.Sprintf("%.0fs %s", c.At.Sub(begun).Seconds(), strings.TrimPrefix(line, "update nodename=")))
		}
	}
	events, err := l.store.Events(l.Context(), 0, 0)
	if err != nil {
		l.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "power-down" {
			all = append(all, fmt.Sprintf("%d:%s", e.Job, e.Node))
		}
	}
	return strings.Join(all, ", ")
}

// TestAfterJobsGoesOn: scripts that cannot be read keep nobody's nodes up but their own
// jobs', and are not asked for for ever.
func TestAfterJobsGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const bad = afterReads + 1
		o := slurmtest.Options{Fail: func(cmd string) error {
			if strings.Contains(cmd, "write batch_script") && !strings.Contains(cmd, fmt.Sprintf(" %d -", bad+1)) {
				return errors.New("no answer")
			}
			return nil
		}}
		for i := range bad + 1 {
			o.Nodes = append(o.Nodes, fmt.Sprint("c", i+1))
		}
		begun := time.Now()
		l := &leaving{past: newPast(t, o)}
		defer func() { l.stop() }()
		l.restart()
		for range bad + 1 {
			l.Submit(slurmtest.Job{Requeue: true, Duration: time.Minute, Script: "#!/bin/sh\n#BURST after=power_down\n"})
		}
		l.pass(90 * time.Second)
		if got, want := l.text(begun), fmt.Sprintf("85s c%d state=power_down, %[1]d:c%[1]d", bad+1); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		l.pass(4 * time.Minute)
		if n := l.Count("scontrol write batch_script"); n != bad*afterGiveUp+1 {
			t.Errorf("scripts were asked for %d times", n)
		}
		if due, err := l.store.Unsettled(t.Context(), begun, 1); err != nil || len(due) > 0 {
			t.Errorf("waits still: %+v, %v", due, err)
		}
	})
}

// TestAnArraysScriptIsReadOnce: its tasks may be thousands.
func TestAnArraysScriptIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaving{past: newPast(t, slurmtest.Options{})}
		defer func() { l.stop() }()
		l.restart()
		for range 4 {
			l.Submit(slurmtest.Job{Script: "#!/bin/sh\n"})
		}
		for _, j := range []slurm.Job{{ID: 1, ArrayID: 9}, {ID: 2, ArrayID: 9}, {ID: 3, ArrayID: 8}, {ID: 1}, {ID: 4}} {
			if text, err := l.after.script(t.Context(), j); text != "#!/bin/sh\n" || err != nil {
				t.Errorf("of %+v: %q, %v", j, text, err)
			}
		}
		if n := l.Count("scontrol write batch_script"); n != 4 {
			t.Errorf("scripts were read %d times", n)
		}
	})
}

func TestAfterJobs(t *testing.T) {
	t.Parallel()
	const script = "#!/bin/sh\n#BURST after=power_down\n"
	minute := slurmtest.Job{Requeue: true, Duration: time.Minute, Nodes: 2, Script: script}
	with := func(change func(*slurmtest.Job)) slurmtest.Job { j := minute; change(&j); return j }
	site := []directive.Layer{{Source: directive.Source{Kind: directive.Site}, Settings: []directive.Setting{{Key: "after", Value: "power_down"}}}}
	refuse := false
	refusing := func(cmd string) error {
		if refuse && strings.Contains(cmd, "state=power_down") {
			return errors.New("no answer")
		}
		return nil
	}
	const once = "80s c1,c2 state=power_down, 1:c1, 1:c2"
	for _, tt := range []struct {
		name   string
		o      slurmtest.Options
		site   []directive.Layer
		do     func(l *leaving)
		want   string
		reads  int // of scripts
		failed bool
	}{
		{"its script asks", slurmtest.Options{}, nil, func(l *leaving) { l.Submit(minute); l.pass(9 * time.Minute) }, once, 1, false},
		{"its comment asks", slurmtest.Options{}, nil, func(l *leaving) {
			l.Submit(with(func(j *slurmtest.Job) { j.Script, j.Comment = "", "burst: after=power_down" }))
			l.pass(9 * time.Minute)
		}, once, 1, false},
		{"it fails", slurmtest.Options{}, nil, func(l *leaving) {
			l.Submit(with(func(j *slurmtest.Job) { j.ExitCode = 1 }))
			l.pass(9 * time.Minute)
		}, once, 1, false},
		{"the site asks", slurmtest.Options{}, site, func(l *leaving) {
			l.Submit(with(func(j *slurmtest.Job) { j.Script = "#!/bin/sh\n#BURST signal=FOO\n" }))
			l.pass(9 * time.Minute)
		}, once, 1, false},
		{"it does not want it", slurmtest.Options{}, site, func(l *leaving) {
			l.Submit(with(func(j *slurmtest.Job) { j.Script = "#!/bin/sh\n#BURST after=none\n" }))
			l.pass(9 * time.Minute)
		}, "", 1, false},
		{"nobody asks", slurmtest.Options{}, nil, func(l *leaving) {
			l.Submit(with(func(j *slurmtest.Job) { j.Script = "#!/bin/sh\n" }))
			l.pass(9 * time.Minute)
		}, "", 1, false},
		{"it runs", slurmtest.Options{}, nil, func(l *leaving) {
			l.Submit(with(func(j *slurmtest.Job) { j.Duration = time.Hour }))
			l.pass(9 * time.Minute)
		}, "", 0, false},
		{"it is requeued, and then cancelled", slurmtest.Options{Hold: 10 * time.Second}, nil, func(l *leaving) {
			id := l.Submit(with(func(j *slurmtest.Job) { j.Duration = time.Hour }))
			l.pass(time.Minute)
			if err := l.client.Requeue(l.Context(), id); err != nil {
				l.Error(err)
			}
			l.pass(2 * time.Minute)
			l.Cancel(id)
			l.pass(time.Minute)
		}, "195s c1,c2 state=power_down, 1:c1, 1:c2", 1, false},
		{"one of its nodes has another job", slurmtest.Options{}, nil, func(l *leaving) {
			l.Submit(minute)
			l.Submit(slurmtest.Job{Requeue: true, Duration: time.Hour, Script: "#!/bin/sh\n"})
			l.pass(9 * time.Minute)
		}, "80s c2 state=power_down, 1:c2", 1, false},
		{"one of its nodes is planned for a job at first", slurmtest.Options{}, nil, func(l *leaving) {
			l.planned = map[string]bool{"c1": true}
			l.Submit(minute)
			l.pass(100 * time.Second)
			l.planned = nil
			l.pass(8 * time.Minute)
		}, "105s c1,c2 state=power_down, 1:c1, 1:c2", 1, false},
		{"one of its nodes is planned for a job", slurmtest.Options{}, nil, func(l *leaving) {
			l.planned = map[string]bool{"c1": true}
			l.Submit(minute)
			l.pass(9 * time.Minute)
		}, "185s c2 state=power_down, 1:c2", 1, false},
		{"one of its nodes is a server of files", slurmtest.Options{}, nil, func(l *leaving) {
			l.engine = engineOf(t, power.Config{Pools: []power.Pool{{Name: "nfs", Nodes: []string{"c2"}, Serves: true}}}, power.State{})
			l.Submit(minute)
			l.pass(9 * time.Minute)
		}, "80s c1 state=power_down, 1:c1", 1, false},
		{"two jobs end together", slurmtest.Options{}, nil, func(l *leaving) {
			one := with(func(j *slurmtest.Job) { j.Nodes = 1 })
			l.Submit(one)
			l.Submit(one)
			l.pass(9 * time.Minute)
		}, "80s c1,c2 state=power_down, 1:c1, 2:c2", 2, false},
		{"slurm.conf keeps one up", slurmtest.Options{Config: map[string]string{"SuspendExcNodes": "c[2-9]:1"}}, nil, func(l *leaving) {
			l.Submit(minute)
			l.pass(9 * time.Minute)
		}, "80s c1 state=power_down, 1:c1", 1, false},
		{"burstd is killed before it is told to anybody", slurmtest.Options{}, nil, func(l *leaving) {
			l.Submit(minute)
			l.pass(70 * time.Second)
			l.restart()
			l.pass(9 * time.Minute)
		}, once, 1, false},
		{"burstd is killed again and again", slurmtest.Options{}, nil, func(l *leaving) {
			l.Submit(minute)
			for range 20 {
				l.pass(20 * time.Second)
				l.restart()
			}
		}, once, 1, false},
		{"burstd is killed before Slurm is told", slurmtest.Options{Fail: refusing}, nil, func(l *leaving) {
			l.Submit(minute)
			refuse = true
			l.pass(80 * time.Second)
			l.restart()
			refuse = false
			l.pass(7 * time.Minute)
		}, once, 1, true},
		{"Slurm does not answer for a while", slurmtest.Options{Fail: refusing}, nil, func(l *leaving) {
			l.Submit(minute)
			refuse = true
			l.pass(90 * time.Second)
			refuse = false
			l.pass(7 * time.Minute)
		}, "80s c1,c2 state=power_down, 85s c1,c2 state=power_down, 90s c1,c2 state=power_down, 90s c1,c2 state=power_down, 1:c1, 1:c2", 1, true},
		{"Slurm does not answer, and a job takes a node", slurmtest.Options{Fail: refusing}, nil, func(l *leaving) {
			l.Submit(minute)
			refuse = true
			l.pass(80 * time.Second)
			l.Submit(slurmtest.Job{Requeue: true, Duration: time.Minute, Script: "#!/bin/sh\n"})
			l.pass(10 * time.Second)
			refuse = false
			l.pass(7 * time.Minute)
		}, "80s c1,c2 state=power_down, 80s c1,c2 state=power_down, 85s c2 state=power_down, 90s c2 state=power_down, 90s c2 state=power_down, 1:c1, 1:c2", 2, true},
		{"burstd comes back after a quarter of an hour", slurmtest.Options{MinJobAge: time.Hour, SuspendTime: time.Hour}, nil, func(l *leaving) {
			l.Submit(minute)
			l.pass(time.Minute)
			time.Sleep(15 * time.Minute)
			l.restart()
			l.pass(time.Minute)
		}, "", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refuse = false
				begun := time.Now()
				l := &leaving{past: newPast(t, tt.o), site: tt.site}
				defer func() { l.stop() }()
				l.restart()
				tt.do(l)
				if got := l.text(begun); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				if n := l.Count("scontrol write batch_script"); n != tt.reads {
					t.Errorf("scripts were read %d times, want %d", n, tt.reads)
				}
				if (l.failed > 0) != tt.failed {
					t.Errorf("%d rounds failed", l.failed)
				}
			})
		})
	}
}
