package crash_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// fault is something that the dice may do to a world; do says whether it met
// anything.
type fault struct {
	name   string
	weight int
	do     func(p *played) bool
}

var faults = []fault{
	{"job submitted", 16, (*played).submit},
	{"job cancelled", 3, func(p *played) bool { return len(p.jobs) > 0 && p.cancel(p.jobs[p.dice.IntN(len(p.jobs))]) }},
	{"kill -9 of burstd", 4, func(p *played) bool { p.die(); time.Sleep(p.some(time.Minute)); p.start(""); return true }},
	{"death at some commit or call", 4, func(p *played) bool { p.life.doom(1 + p.dice.IntN(60)); return true }},
	{"slurmctld away", 2, (*played).controllerAway},
	{"orders lost, or not any more", 2, func(p *played) bool { p.orderless(p.dice.IntN(2) == 0); return true }},
	{"slurmctld dies before ResumeProgram", 1, func(p *played) bool { p.ctl.LoseResume(); return true }},
	{"clock step of the controller", 1, func(p *played) bool { p.skewed(p.some(4*time.Minute) - 2*time.Minute); return true }},
	{"order that Slurm did not give", 2, (*played).unasked},
	{"no capacity, or some", 3, func(p *played) bool { p.fake.SetCapacity(p.offering(), p.dice.IntN(4)-1); return true }},
	{"launches of an offering throttled", 2, func(p *played) bool { p.fake.Throttle(p.offering(), 1+p.dice.IntN(3)); return true }},
	{"launch fails, perhaps its answer only", 2, func(p *played) bool {
		p.fake.Inject(cloudtest.Launch, cloudtest.Fault{Times: 1 + p.dice.IntN(3), Lost: p.dice.IntN(2) == 0, Err: p.failure(cloudtest.Launch, cloud.Transient)})
		return true
	}},
	{"launch's answer lost", 2, func(p *played) bool { p.fake.LoseAnswer(cloudtest.Launch); return true }},
	{"calls throttled", 2, func(p *played) bool { return p.calls(cloud.Throttled) }},
	{"calls over quota", 1, func(p *played) bool { return p.calls(cloud.Quota) }},
	{"calls invalid", 1, func(p *played) bool { return p.calls(cloud.Invalid) }},
	{"calls without rights", 2, func(p *played) bool { return p.calls(cloud.Auth) }},
	{"calls fail in transit", 2, func(p *played) bool { return p.calls(cloud.Transient) }},
	{"instances that never boot", 2, func(p *played) bool { p.fake.NeverBoot(p.dice.IntN(3)); return true }},
	{"lists empty, or not any more", 2, func(p *played) bool { e := p.dice.IntN(2) == 0 && p.knows(); p.moody.set(e, e); return true }},
	{"double instance", 1, (*played).double},
	{"eviction without notice", 3, func(p *played) bool {
		i, ok := p.instance()
		if ok {
			p.say("%s dies", i.ID)
			p.fake.Kill(i.ID)
		}
		return ok
	}},
	{"node cut off", 2, (*played).cutOff},
	{"cut off nodes are back", 2, func(p *played) bool { return p.rejoin() }},
	{"eviction with notice", 4, func(p *played) bool { return p.notice(cloud.SpotInterruption, p.some(3*time.Minute)) }},
	{"late eviction notice", 1, func(p *played) bool { return p.notice(cloud.SpotInterruption, -p.some(time.Minute)) }},
	{"rebalance notice", 1, func(p *played) bool { return p.notice(cloud.Rebalance, 0) }},
	{"maintenance notice", 1, (*played).maintenance},
	{"maintenance cancelled", 1, (*played).maintenanceOff},
	{"state-change notice", 1, func(p *played) bool { return p.notice(cloud.StateChange, 0) }},
	{"notice of an unknown kind", 1, func(p *played) bool { return p.notice("weather", 0) }},
	{"launches paused, or not any more", 1, func(p *played) bool { return p.pause(p.dice.IntN(2) == 0) }},
	{"foreign notice", 2, func(p *played) bool {
		p.fake.Announce(cloud.Notice{Instance: fmt.Sprint("i-foreign-", p.dice.IntN(3)), Kind: cloud.SpotInterruption, Deadline: time.Now().Add(p.some(time.Minute))})
		return true
	}},
	{"storm of notices", 1, (*played).storm},
	{"journal lost", 1, func(p *played) bool {
		p.moody.set(false, false)
		p.loseJournal()
		p.losses = append(p.losses, time.Now())
		time.Sleep(p.some(time.Minute))
		p.start("")
		return true
	}},
}

func (p *played) offering() cloud.Offering { return p.offerings[p.dice.IntN(len(p.offerings))] }

func (p *played) failure(op cloudtest.Op, k cloud.Kind) error {
	return &cloud.Error{Kind: k, Op: string(op), Err: errors.New("by dice")}
}

func (p *played) calls(k cloud.Kind) bool {
	ops := []cloudtest.Op{cloudtest.Launch, cloudtest.Prepare, cloudtest.List, cloudtest.Terminate, cloudtest.Assign, cloudtest.Acknowledge}
	op := ops[p.dice.IntN(len(ops))]
	p.fake.Inject(op, cloudtest.Fault{Times: 1 + p.dice.IntN(5), Err: p.failure(op, k)})
	return true
}

// leaves is how long after burstd has told it so a job ends.
const leaves = time.Second

func (p *played) submit() bool {
	j := slurmtest.Job{Nodes: 1 + p.dice.IntN(4), Requeue: p.dice.IntN(4) > 0, Duration: p.some(5 * time.Minute), OnStart: p.began}
	if p.dice.IntN(3) == 0 {
		j.Script = "#!/bin/sh\n#BURST signal=USR1 grace=20s\nsrun app\n"
		j.OnSignal = func(id uint32, _ string) { p.ctl.Checkpoint(id); p.ctl.Leave(id, leaves, 75) }
	}
	if len(p.pool.Then) > 0 {
		j.Features = []string{"", "", "fake", "other", "other|fake"}[p.dice.IntN(5)]
	}
	id := p.ctl.Submit(j)
	if id == 0 {
		return false // no node has its feature for the moment, and sbatch says so
	}
	p.jobs, p.requeue[id] = append(p.jobs, id), j.Requeue
	p.say("job %d: %d nodes, requeue %v, %s", id, j.Nodes, j.Requeue, j.Duration)
	return true
}

func (p *played) cancel(id uint32) bool {
	p.ctl.Cancel(id)
	p.cancelled[id] = true
	return true
}

func (p *played) controllerAway() bool {
	p.ctl.Down()
	time.Sleep(p.some(2 * time.Minute))
	p.ctl.Up()
	return true
}

// skewed has orders made by a clock that is wrong by d.
func (p *played) skewed(d time.Duration) {
	p.mu.Lock()
	p.skew = d
	p.mu.Unlock()
}

// unasked gives an order that Slurm did not give, once or twice.
func (p *played) unasked() bool {
	kind := []power.OrderKind{power.Resume, power.Suspend, power.ResumeFail}[p.dice.IntN(3)]
	nodes := []string{"c1", "c[2-3]", "c6", "x[1-3]", "c1,x1"}[p.dice.IntN(5)]
	o := power.Order{ID: fmt.Sprint("dice-", len(p.told)), Kind: kind, Nodes: nodes, Made: time.Now().Add(-p.some(time.Minute))}
	p.mu.Lock()
	p.spool = append(p.spool, o)
	if p.dice.IntN(2) == 0 {
		p.spool = append(p.spool, o)
	}
	p.mu.Unlock()
	p.say("%s of %s", o.Kind, nodes)
	return true
}

// instance picks a live one.
func (p *played) instance() (cloud.Instance, bool) {
	var live []cloud.Instance
	for _, i := range p.fake.Instances() {
		if i.State.Live() {
			live = append(live, i)
		}
	}
	if len(live) == 0 {
		return cloud.Instance{}, false
	}
	return live[p.dice.IntN(len(live))], true
}

// notice announces something of an instance, perhaps twice, perhaps again for another time.
func (p *played) notice(kind cloud.NoticeKind, lead time.Duration) bool {
	i, ok := p.instance()
	if !ok {
		return false
	}
	n := cloud.Notice{Instance: i.ID, Kind: kind, Action: []string{"", "terminate", "stop", "hibernate", "tango"}[p.dice.IntN(5)]}
	if kind == cloud.SpotInterruption {
		n.Deadline = time.Now().Add(lead)
	}
	for range 1 + p.dice.IntN(3) {
		p.fake.Announce(n)
		n.Deadline = n.Deadline.Add(p.some(time.Minute) - 30*time.Second)
		n.Action = strings.ToUpper(n.Action)
	}
	p.say("%s of %s in %s", kind, i.ID, lead)
	return true
}

// pause is an admin's, who is told when it fails.
func (p *played) pause(on bool) bool {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	if on {
		return p.life.engine.Pause(ctx, "uid 0", "by dice") == nil
	}
	return p.life.engine.Unpause(ctx, "uid 0") == nil
}

func (p *played) maintenance() bool {
	i, ok := p.instance()
	if ok {
		n := cloud.Notice{Instance: i.ID, Kind: cloud.Maintenance, Event: fmt.Sprint("event-", len(p.told)), Deadline: time.Now().Add(p.some(20 * time.Minute)), Action: "system-reboot"}
		p.planned[n.Event] = i.ID
		p.fake.Announce(n)
	}
	return ok
}

func (p *played) maintenanceOff() bool {
	for _, event := range slices.Sorted(maps.Keys(p.planned)) {
		id := p.planned[event]
		p.fake.Announce(cloud.Notice{Instance: id, Kind: cloud.Maintenance, Event: event, Cancelled: true})
		delete(p.planned, event)
		return true
	}
	return false
}

// storm announces the end of all that lives, to be in half a minute or so.
func (p *played) storm() bool {
	n := 0
	for _, i := range p.fake.Instances() {
		if i.State.Live() {
			p.fake.Announce(cloud.Notice{Instance: i.ID, Kind: cloud.SpotInterruption, Action: "terminate", Deadline: time.Now().Add(p.some(time.Minute))})
			n++
		}
	}
	return n > 0
}
