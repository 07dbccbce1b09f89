package power

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// How long the cloud's complete lists must lack an instance, and how often,
// before that is taken for its word that the instance is gone. Clouds show
// terminated instances for an hour or so; this is for a burstd that was away longer.
const (
	absentFor   = 5 * time.Minute
	absentTimes = 3
)

// settle is how long the table must want an action that undoes or repeats an
// order: the order itself may be on its way.
const settle = 10 * time.Second

// reconcile compares the clouds, Slurm and the journal, read in this order,
// once a round: at the start, soon after, and every cfg.Reconcile.
func (e *Engine) reconcile(ctx context.Context) (time.Duration, error) {
	if wait := time.Until(e.next); wait > 0 {
		return wait, nil
	}
	began := time.Now()
	lists, err := e.listAll(ctx)
	if err != nil {
		return 0, err
	}
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return 0, fmt.Errorf("reconciling: %w", err)
	}
	e.rounds++
	round := min(e.cfg.Reconcile, settle+time.Duration(e.rounds)*5*time.Second)
	e.next = time.Now().Add(round)

	var c Change
	e.takeLists(&c, lists, snap)
	if err := e.commit(ctx, c); err != nil {
		return 0, err
	}
	return round, e.settleNodes(ctx, snap, lists, began)
}

// listAll asks every provider for all our instances; one that does not answer
// has no entry: an empty answer is something else.
func (e *Engine) listAll(ctx context.Context) (map[string][]cloud.Instance, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	lists := map[string][]cloud.Instance{}
	for name, p := range e.providers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			list, err := p.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster})
			e.note(name, err)
			if err != nil {
				e.log.Warn("no answer: nothing is concluded about its instances", "provider", name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			lists[name] = list
		})
	}
	wg.Wait()
	return lists, ctx.Err()
}

// takeLists brings what the clouds say into the journal: changed states,
// instances that are gone, strays.
func (e *Engine) takeLists(c *Change, lists map[string][]cloud.Instance, snap *slurm.Snapshot) {
	now := time.Now()
	ended := 0
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		list := lists[name]
		known := e.learn(list)
		c.Instances, c.Events = append(c.Instances, known.Instances...), append(c.Events, known.Events...)
		listed := map[string]bool{}
		for _, i := range list {
			listed[i.ID] = true
			if _, have := e.mem.instances[i.ID]; have || !i.State.Live() {
				continue
			}
			e.takeStray(c, name, i, snap, &ended)
		}
		for id, i := range e.mem.instances {
			if i.Provider != name || listed[id] || now.Sub(i.Launched) <= e.providers[name].Limits().Lag {
				delete(e.missing, id)
				continue
			}
			s := e.missing[id].seen("absent", now)
			e.missing[id] = s
			if s.times < absentTimes || now.Sub(s.since) < absentFor {
				continue
			}
			if i.Doomed != "" {
				e.gone(c, i)
			} else if i.State != cloud.Terminated {
				i.State, i.Ended = cloud.Terminated, now
				c.Instances = append(c.Instances, i)
			}
		}
	}
	for id := range e.missing {
		if _, ok := e.mem.instances[id]; !ok {
			delete(e.missing, id)
		}
	}
	// An instance that ended without having been asked to, and serves no node any more, is closed.
	for id, i := range e.mem.instances {
		if n, ok := e.mem.nodes[i.Assigned]; i.State == cloud.Terminated && i.Doomed == "" && (!ok || n.Instance != id) {
			i.Doomed = "ended by itself"
			e.gone(c, i)
		}
	}
}

func (e *Engine) takeStray(c *Change, provider string, i cloud.Instance, snap *slurm.Snapshot, ended *int) {
	now := time.Now()
	rec := Instance{Instance: i, Provider: provider}
	_, open := e.mem.launches[i.Token]
	_, busy := e.mem.nodes[i.Node]
	p := powerOf(snap, i.Node)
	s := stray{
		launchOpen: open, first: e.rounds == 1,
		adoptable: i.Node != "" && !busy && e.poolOf[i.Node] != "" && (p == on || p == poweringUp),
	}
	ev := Event{Time: now, Node: i.Node, Instance: i.ID, Pool: i.Pool}
	switch s.decide() {
	case adopt:
		rec.Assigned = i.Node
		n := Node{Name: i.Node, Pool: e.poolOf[i.Node], Phase: Booting, Since: now, Made: i.Launched, Instance: i.ID}
		if slices.ContainsFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name }) {
			return // two say that they are one node: the next round ends the second
		}
		c.Nodes = append(c.Nodes, n)
		ev.Kind, ev.Text = "adopt", fmt.Sprintf("%s is node %s, which the journal did not know", i.Offering, i.Node)
	case terminate:
		if *ended++; *ended > e.cfg.MaxTerminate {
			return
		}
		rec.Doomed = "an orphan: no node and no launch of ours has it"
		ev.Kind, ev.Text = "terminate", rec.Doomed
	default:
		return
	}
	c.Instances, c.Events = append(c.Instances, rec), append(c.Events, ev)
}

// settleNodes applies the table to every node of ours.
func (e *Engine) settleNodes(ctx context.Context, snap *slurm.Snapshot, lists map[string][]cloud.Instance, began time.Time) error {
	now := time.Now()
	var c Change
	var lost []string // resume orders to make again
	for _, name := range slices.Sorted(maps.Keys(e.poolOf)) {
		n, have := e.mem.nodes[name]
		if have && !n.Since.Before(began) {
			continue // newer than what was read
		}
		a := decide(e.cellOf(snap, lists, name))
		s := e.settling[name].seen(string(a), now)
		e.settling[name] = s
		if a == wait {
			delete(e.settling, name)
			continue
		}
		if e.rounds == 1 && a != register && a != address {
			continue // the first round only adopts
		}
		if hasty := a == dead || a == register || a == address || a == retry; !hasty && now.Sub(s.since) < settle {
			continue
		}
		delete(e.settling, name)
		if a == recreate {
			lost = append(lost, name)
			continue
		}
		e.act(&c, a, n, snap)
	}
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	if len(lost) == 0 {
		return nil
	}
	list := hostlist.Fold(lost)
	e.log.Warn("Slurm powers up nodes without an order: it is made again", "nodes", list)
	o := Order{ID: "reconcile-" + rand.Text(), Kind: Resume, Nodes: list, Made: snap.Taken}
	if _, err := e.journal.AddOrder(ctx, o); err != nil {
		return err
	}
	e.apply(Change{Orders: []Order{o}})
	e.Wake()
	return nil
}

func (e *Engine) cellOf(snap *slurm.Snapshot, lists map[string][]cloud.Instance, name string) cell {
	c := cell{slurm: powerOf(snap, name), journal: noRecord, instance: noInstance}
	n, have := e.mem.nodes[name]
	if !have {
		return c
	}
	c.journal = n.Phase
	if n.Instance == "" {
		return c
	}
	c.instance = noAnswer
	i, ok := e.mem.instances[n.Instance]
	if _, answered := lists[i.Provider]; ok && answered && e.missing[i.ID].times == 0 || i.State == cloud.Terminated {
		c.instance = i.State
	}
	c.addrWrong = n.AddrSet && i.Addr != "" && snap.Nodes[name].Addr != i.Addr
	return c
}

// act plans one action on a node that has a record.
func (e *Engine) act(c *Change, a action, n Node, snap *slurm.Snapshot) {
	now := time.Now()
	i := e.mem.instances[n.Instance]
	ev := Event{Time: now, Kind: "reconcile", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: n.Job}
	switch a {
	case register:
		e.registered(c, n, now)
		return
	case address:
		n.AddrSet = false
		c.Nodes = append(c.Nodes, n)
		ev.Text = "Slurm has another address for it: ours is sent again"
	case forget:
		c.DropNodes = append(c.DropNodes, n.Name)
		ev.Text = "Slurm does not power it up any more: forgotten"
	case suspend:
		taking{mem: e.mem, pools: e.poolOf, now: now}.doom(c, n.Name, "Slurm has powered it down")
		c.DropNodes = append(c.DropNodes, n.Name)
		ev.Text = "Slurm has powered it down, the order was lost: suspended"
	case free:
		give(c, e.mem, []Node{n}, "it did not come up in time", now)
		return
	case dead:
		c.Instances = append(c.Instances, doomed(i, "the cloud ended it"))
		n.Phase, n.Since, n.Reason, n.Instance, n.Token = Freeing, now, fmt.Sprintf("instance %s is gone", i.ID), "", ""
		n.Job = 0
		for _, j := range running(snap, n.Name) {
			n.Job = j.ID // of several, any: all are requeued by the one update
			hold(c, e.mem, j.ID, now, fmt.Sprintf("node %s died", n.Name))
		}
		c.Nodes = append(c.Nodes, n)
		ev.Kind, ev.Text = "died", "the cloud says that its instance is gone: DOWN, its jobs are requeued"
	case retry:
		c.Instances = append(c.Instances, doomed(i, "it ended before it registered"))
		n.Tries++
		if n.Tries >= maxTries {
			why := fmt.Sprintf("%d instances in a row ended before they registered", n.Tries)
			give(c, e.mem, []Node{n}, why, now)
			if n.Job != 0 {
				hold(c, e.mem, n.Job, retryAt(e.mem.holds[n.Job], now), fmt.Sprintf("node %s: %s", n.Name, why))
			}
			return
		}
		n.Phase, n.Since, n.Token, n.Instance, n.AddrSet = Wanted, now, "", "", false
		c.Nodes = append(c.Nodes, n)
		ev.Kind, ev.Text = "retry", "its instance ended before it registered: another is launched"
	}
	c.Events = append(c.Events, ev)
}

// running lists the jobs that hold the node and that Slurm requeues when it goes down.
func running(snap *slurm.Snapshot, node string) []slurm.Job {
	var jobs []slurm.Job
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		if !j.Requeue || !slices.Contains([]string{"RUNNING", "CONFIGURING", "SUSPENDED"}, j.State) {
			continue
		}
		if nodes, err := hostlist.Expand(j.Nodes); err == nil && slices.Contains(nodes, node) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// maxTries is how many instances may end before they register until a node is given back.
const maxTries = 3

func doomed(i Instance, why string) Instance {
	i.Doomed = cmp.Or(i.Doomed, why)
	return i
}
