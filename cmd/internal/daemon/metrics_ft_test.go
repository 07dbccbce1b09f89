package daemon

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// spot is a notice for i-1 that ends in two minutes.
func spot() cloud.Notice {
	return cloud.Notice{Instance: "i-1", Kind: cloud.SpotInterruption, Source: "imds", Deadline: noon.Add(2 * time.Minute)}
}

func TestNoticesAreCountedOnce(t *testing.T) {
	notice := func(c *counted, n cloud.Notice, stages ...ft.Stage) {
		c.heard(n, true)
		for i, s := range stages {
			c.evictions(ft.Change{Notices: []ft.Notice{{Notice: n, Stage: s}}}, noon.Add(time.Duration(i)*time.Minute))
		}
	}
	for _, tt := range []struct {
		name string
		do   func(c *counted)
		want []string
	}{
		{"acted upon", func(c *counted) { notice(c, spot(), ft.Draining, ft.Done, ft.Acked) }, []string{
			"notices_total{kind=spot-interruption,outcome=acted,source=imds} 1", "notice_lead_seconds{kind=spot-interruption,moment=free} 1"}},
		{"foreign", func(c *counted) { notice(c, spot(), ft.Foreign, ft.Acked) }, []string{
			"notices_total{kind=spot-interruption,outcome=foreign,source=imds} 1"}},
		{"from another side too", func(c *counted) {
			notice(c, spot(), ft.Draining)
			n := spot()
			n.Source = "sqs"
			c.heard(n, false)
		}, []string{"notices_total{kind=spot-interruption,outcome=acted,source=imds} 1", "notices_total{kind=spot-interruption,outcome=duplicate,source=sqs} 1"}},
		{"an earlier deadline, while it is acted upon", func(c *counted) {
			notice(c, spot(), ft.Draining)
			n := spot()
			n.Deadline = n.Deadline.Add(-time.Minute)
			c.heard(n, true)
			notice(c, n, ft.Done, ft.Acked)
		}, []string{"notices_total{kind=spot-interruption,outcome=acted,source=imds} 1", "notice_lead_seconds{kind=spot-interruption,moment=free} 1"}},
		{"taken back", func(c *counted) {
			n := spot()
			n.Cancelled = true
			c.heard(n, true)
			c.evictions(ft.Change{Notices: []ft.Notice{{Notice: n, Stage: ft.Foreign}, {Notice: n, Stage: ft.Acked}}}, noon)
		}, []string{"notices_total{kind=spot-interruption,outcome=cancelled,source=imds} 1"}},
		{"taken back while it is acted upon, and again", func(c *counted) {
			notice(c, spot(), ft.Draining)
			n := spot()
			n.Cancelled = true
			c.heard(n, true)
			c.heard(n, false)
			c.evictions(ft.Change{Notices: []ft.Notice{{Notice: n, Stage: ft.Done}, {Notice: n, Stage: ft.Acked}}}, noon)
		}, []string{"notices_total{kind=spot-interruption,outcome=acted,source=imds} 1", "notices_total{kind=spot-interruption,outcome=cancelled,source=imds} 1",
			"notices_total{kind=spot-interruption,outcome=duplicate,source=imds} 1", "notice_lead_seconds{kind=spot-interruption,moment=free} 1"}},
		{"of a kind that its pool ignores", func(c *counted) {
			n := spot()
			n.Kind = cloud.Rebalance
			c.heard(n, true)
			c.evictions(ft.Change{Notices: []ft.Notice{{Notice: n, Stage: ft.Foreign, Node: "c1"}, {Notice: n, Stage: ft.Acked, Node: "c1"}}}, noon)
		}, []string{"notices_total{kind=rebalance,outcome=ignored,source=imds} 1"}},
		{"the site's own, as a budget is spent", func(c *counted) {
			notice(c, cloud.Notice{Instance: "i-1", Kind: ft.Spent, Source: sourceAtCap}, ft.Draining, ft.Done, ft.Acked)
		}, []string{"notices_total{kind=budget,outcome=acted,source=burstd} 1"}},
		{"of a kind that nobody knows", func(c *counted) {
			notice(c, cloud.Notice{Instance: "i-1", Kind: "moon", Source: "owl"}, ft.Draining)
		}, []string{"notices_total{kind=other,outcome=acted,source=other} 1"}},
		{"begun by an earlier burstd", func(c *counted) {
			c.resume(ft.State{Notices: []ft.Notice{{Notice: spot(), Stage: ft.Draining}}})
			c.evictions(ft.Change{Notices: []ft.Notice{{Notice: spot(), Stage: ft.Done}}}, noon)
		}, []string{"notice_lead_seconds{kind=spot-interruption,moment=free} 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCounted(t)
			tt.do(c)
			c.want([]string{"notices_total", "notice_lead_seconds"}, tt.want...)
		})
	}
}

// TestOverdue: a notice that is acted upon after its deadline is seen.
func TestOverdue(t *testing.T) {
	c := newCounted(t)
	c.heard(spot(), true)
	for _, tt := range []struct {
		stage ft.Stage
		at    time.Duration
		want  time.Duration
	}{
		{ft.Draining, time.Minute, 0}, {ft.Draining, 3 * time.Minute, time.Minute}, {ft.Done, 3 * time.Minute, 0}, {ft.Acked, time.Hour, 0},
	} {
		c.evictions(ft.Change{Notices: []ft.Notice{{Notice: spot(), Stage: tt.stage}}}, noon)
		if got := c.overdue(noon.Add(tt.at)); got != tt.want {
			t.Errorf("%s, %s after the notice: overdue for %s, want %s", tt.stage, tt.at, got, tt.want)
		}
	}
}

func TestAttemptsAreCountedOnce(t *testing.T) {
	const seven = 7
	job := slurm.Job{ID: seven, State: "RUNNING", Nodes: "c[1-2]", Start: noon.Add(-time.Hour), Batch: true, Requeue: true}
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	put := func(c *counted, e ft.Eviction, now time.Time) {
		c.evictions(ft.Change{Evictions: []ft.Eviction{e}}, now)
	}
	asked := ft.Eviction{Instance: "i-1", Kind: cloud.SpotInterruption, Job: seven, Signal: "USR1", Grace: 20 * time.Second, Stage: ft.Signalled, SignalledAt: at(1)}
	planned, requeued, done := asked, asked, asked
	planned.Stage, planned.SignalledAt = ft.Planned, time.Time{}
	requeued.Stage = ft.Requeued
	done.Stage, done.Ending = ft.Done, ft.Moved
	steps := asked
	steps.Signal, steps.Ask, steps.By, steps.Lost = "", session.Stop, at(110), -1
	unasked := planned
	unasked.Signal = ""
	second := func(e ft.Eviction) ft.Eviction { e.Instance = "i-2"; return e }
	for _, tt := range []struct {
		name string
		do   func(c *counted)
		want []string
	}{
		{"left after its signal", func(c *counted) {
			put(c, planned, at(0))
			put(c, asked, at(1))
			put(c, requeued, at(5))
			put(c, done, at(6))
		}, []string{"checkpoints_total{outcome=asked} 1", "checkpoints_total{outcome=left} 1", "requeues_total{cause=notice} 1",
			"notice_lead_seconds{kind=spot-interruption,moment=signalled} 1"}},
		{"two of its nodes", func(c *counted) {
			for i, e := range []ft.Eviction{planned, asked, requeued, done} {
				put(c, e, at(i))
				put(c, second(e), at(i))
			}
		}, []string{"checkpoints_total{outcome=asked} 1", "checkpoints_total{outcome=left} 1", "requeues_total{cause=notice} 1",
			"notice_lead_seconds{kind=spot-interruption,moment=signalled} 1"}},
		{"ran to the end of its grace", func(c *counted) {
			put(c, asked, at(1))
			put(c, requeued, at(21))
			put(c, done, at(22))
		}, []string{"checkpoints_total{outcome=asked} 1", "checkpoints_total{outcome=grace-over} 1", "requeues_total{cause=notice} 1",
			"work_lost_seconds_total{cause=grace-over} 3621", "notice_lead_seconds{kind=spot-interruption,moment=signalled} 1"}},
		{"finished in its grace", func(c *counted) {
			put(c, asked, at(1))
			e := done
			e.Ending = ft.Finished
			put(c, e, at(5))
		}, []string{"checkpoints_total{outcome=asked} 1", "checkpoints_total{outcome=finished} 1", "notice_lead_seconds{kind=spot-interruption,moment=signalled} 1"}},
		{"no signal", func(c *counted) {
			put(c, unasked, at(0))
			e := unasked
			e.Stage = ft.Requeued
			put(c, e, at(10))
		}, []string{"requeues_total{cause=notice} 1", "work_lost_seconds_total{cause=no-signal} 3610"}},
		{"its steps saved their work", func(c *counted) {
			put(c, steps, at(1))
			e := steps
			e.Stage, e.Lost = ft.Requeued, 0
			put(c, e, at(50))
		}, []string{"checkpoints_total{outcome=asked} 1", "checkpoints_total{outcome=saved} 1", "requeues_total{cause=notice} 1",
			"notice_lead_seconds{kind=spot-interruption,moment=signalled} 1"}},
		{"its steps go on from an older generation", func(c *counted) {
			put(c, steps, at(1))
			e := steps
			e.Stage, e.Lost, e.LostIterations = ft.Requeued, 90*time.Second, 120
			put(c, e, at(50))
		}, []string{"checkpoints_total{outcome=asked} 1", "checkpoints_total{outcome=unsaved} 1", "requeues_total{cause=notice} 1",
			"work_lost_seconds_total{cause=since-checkpoint} 90", "iterations_lost_total{cause=since-checkpoint} 120", "notice_lead_seconds{kind=spot-interruption,moment=signalled} 1"}},
		{"had not begun", func(c *counted) {
			c.snap.Jobs[seven] = slurm.Job{ID: seven, State: "CONFIGURING", Start: noon}
			e := unasked
			e.Stage = ft.Requeued
			put(c, e, at(10))
		}, []string{"requeues_total{cause=notice} 1"}},
		{"begun by an earlier burstd", func(c *counted) {
			c.resume(ft.State{Evictions: []ft.Eviction{asked}})
			put(c, requeued, at(5))
			put(c, done, at(6))
		}, []string{"checkpoints_total{outcome=left} 1", "requeues_total{cause=notice} 1"}},
		{"requeued by an earlier burstd", func(c *counted) {
			c.resume(ft.State{Evictions: []ft.Eviction{requeued}})
			put(c, done, at(6))
		}, nil},
		{"two nodes died, one after the other", func(c *counted) {
			for _, n := range []string{"c1", "c2", "c3"} {
				c.power(power.Change{Events: []power.Event{{Kind: "died", Node: n}}}, at(0))
			}
		}, []string{"requeues_total{cause=died} 1", "work_lost_seconds_total{cause=died} 3600"}},
		{"two nodes of a job under burst-srun died", func(c *counted) {
			for _, i := range []string{"i-1", "i-2"} {
				put(c, ft.Eviction{Instance: i, Kind: ft.Died, Job: seven, Stage: ft.Done, Ending: ft.Moved, Lost: 5 * time.Minute, LostIterations: 40}, at(0))
			}
			c.power(power.Change{Events: []power.Event{{Kind: "died", Node: "c1"}, {Kind: "died", Node: "c2"}}}, at(1))
		}, []string{"requeues_total{cause=died} 1", "work_lost_seconds_total{cause=died} 300", "iterations_lost_total{cause=died} 40"}},
		{"a node died that had a notice", func(c *counted) {
			put(c, asked, at(1))
			c.power(power.Change{Events: []power.Event{{Kind: "died", Node: "c1"}}}, at(2))
		}, []string{"checkpoints_total{outcome=asked} 1", "notice_lead_seconds{kind=spot-interruption,moment=signalled} 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCounted(t)
			c.snap = &slurm.Snapshot{Jobs: map[uint32]slurm.Job{seven: job}}
			c.resume(ft.State{Notices: []ft.Notice{{Notice: spot(), Stage: ft.Draining}}})
			tt.do(c)
			c.want([]string{"checkpoints_total", "requeues_total", "work_lost_seconds_total", "iterations_lost_total", "notice_lead_seconds"}, tt.want...)
		})
	}
}
