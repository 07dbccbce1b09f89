package crash_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

// began is called when a job's batch script starts: its former attempt must
// not live on an instance that Slurm had lost from sight.
func (p *played) began(id uint32, restarts int) {
	info, _ := p.ctl.Info(id)
	p.runs.Lock()
	defer p.runs.Unlock()
	at := map[string]string{}
	nodes := p.fake.Nodes()
	for _, i := range p.fake.Instances() {
		if i.State.Live() {
			at[i.ID] = nodes[i.ID]
		}
	}
	for _, old := range p.on[id] {
		if _, lives := at[old]; lives && p.cut[old].runs[id] {
			p.t.Errorf("%s: job %d begins its attempt %d on %v while the former runs on %s (%s), which is cut off", time.Now().Format("15:04:05.000"), id, restarts, info.Nodes, old, p.cut[old].node)
		}
	}
	p.on[id] = nil
	for instance, node := range at {
		if slices.Contains(info.Nodes, node) {
			p.on[id] = append(p.on[id], instance)
		}
	}
}

// double launches a second instance for a node, as a cloud without tokens does
// when an answer is lost.
func (p *played) double() bool {
	i, ok := p.instance()
	if !ok {
		return false
	}
	node := p.fake.Nodes()[i.ID]
	r := p.fake.Request(i.ID)
	r.Token, r.Count = fmt.Sprint("double-", len(p.told)), 1
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	twin, err := p.fake.Launch(ctx, r)
	if err != nil || len(twin) == 0 {
		return false
	}
	p.doubled[node] = true
	p.say("%s is a double of %s (%s)", twin[0].ID, i.ID, node)
	return p.dice.IntN(2) == 0 || p.fake.Assign(ctx, map[string]string{twin[0].ID: node}) == nil
}

// cutOff has Slurm lose an instance from sight, which lives on with what runs on it.
func (p *played) cutOff() bool {
	i, ok := p.instance()
	node := p.fake.Nodes()[i.ID]
	if !ok || node == "" || i.State != cloud.Running || strings.Contains(p.ctl.Node(node), "POWERING") {
		return false
	}
	l := lost{node: node, runs: map[uint32]bool{}}
	for _, id := range p.jobs {
		info, _ := p.ctl.Info(id)
		l.runs[id] = slices.Contains([]string{"RUNNING", "COMPLETING"}, info.State) && slices.Contains(info.Nodes, node)
	}
	p.runs.Lock()
	if _, already := p.cut[i.ID]; !already {
		p.cut[i.ID] = l
	}
	p.runs.Unlock()
	p.ctl.Lost(node)
	p.say("%s (%s) is cut off", i.ID, node)
	return true
}

// rejoin has those that are cut off register again, if they live.
func (p *played) rejoin() bool {
	p.runs.Lock()
	cut := p.cut
	p.cut = map[string]lost{}
	p.runs.Unlock()
	nodes := p.fake.Nodes()
	for _, i := range p.fake.Instances() {
		if l, ok := cut[i.ID]; ok && i.State == cloud.Running && nodes[i.ID] == l.node {
			p.ctl.RegisterBooted(l.node, i.Launched)
		}
	}
	return len(cut) > 0
}

// doom has the life die after so many more points; 0: not by itself.
func (l *life) doom(points int) {
	l.mu.Lock()
	l.left = points
	l.mu.Unlock()
}

// moody is a cloud whose lists are at times empty.
type moody struct {
	*cloudtest.Fake
	mu      sync.Mutex
	empty   bool
	foreign bool
}

// set has lists be empty, and perhaps the account be another, or not any more.
func (m *moody) set(empty, foreign bool) {
	m.mu.Lock()
	m.empty, m.foreign = empty, foreign
	m.mu.Unlock()
}

// List answers as the fake does, or that there is nothing: an outage, or the
// wrong account.
func (m *moody) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	all, err := m.Fake.List(ctx, f)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.empty {
		return nil, err
	}
	return all, err
}

// Launch is refused while the account is another one: what is asked for is not made there.
func (m *moody) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	m.mu.Lock()
	foreign := m.foreign
	m.mu.Unlock()
	if foreign {
		return nil, &cloud.Error{Kind: cloud.Auth, Op: string(cloudtest.Launch), Err: errors.New("another account's credentials")}
	}
	return m.Fake.Launch(ctx, r)
}

// knows says that the journal replaces none that is lost, of whose instances it
// has to learn from the lists.
func (p *played) knows() bool {
	st, err := p.life.store.LoadPower(p.t.Context())
	return err == nil && (slices.Contains(st.Heard, "") || slices.Contains(st.Heard, "fake"))
}
