package cloudtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// SetCapacity gives an offering room for n more instances; a negative n
// makes it unlimited again.
func (f *Fake) SetCapacity(o cloud.Offering, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 0 {
		delete(f.capacity, o)
		return
	}
	f.capacity[o] = n
}

// Throttle refuses an offering as asked for too often, in the next n launches that ask for it.
func (f *Fake) Throttle(o cloud.Offering, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[o] = n
}

// RefusePool has Prepare refuse a pool's requests with err, until it is nil.
func (f *Fake) RefusePool(pool string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused[pool] = err
}

// NeverBoot lets the next n instances stay pending for ever.
func (f *Fake) NeverBoot(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = n
}

// Request is the launch request that an instance came of.
func (f *Fake) Request(id string) cloud.LaunchRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[id]
}

// Inject makes later calls of op fail. Faults of one op are met one after the other.
func (f *Fake) Inject(op Op, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault.Times = max(fault.Times, 1)
	f.faults[op] = append(f.faults[op], fault)
}

// Heal takes back all faults that have not been met.
func (f *Fake) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faults)
}

// nextFault takes the fault that the present call of op meets, if any.
func (f *Fake) nextFault(op Op) Fault {
	queue := f.faults[op]
	if len(queue) == 0 {
		return Fault{}
	}
	fault := &queue[0]
	if fault.Skip > 0 {
		fault.Skip--
		return Fault{}
	}
	met := *fault
	if fault.Times--; fault.Times == 0 {
		f.faults[op] = queue[1:]
	}
	return met
}

// Fail makes the next call of op fail with an error of the kind.
func (f *Fake) Fail(op Op, kind cloud.Kind) {
	f.Inject(op, Fault{Err: fail(op, kind, "injected")})
}

// LoseAnswer lets the next call of op have its effect but not its answer.
func (f *Fake) LoseAnswer(op Op) {
	f.Inject(op, Fault{Err: fail(op, cloud.Transient, "injected: the answer is lost"), Lost: true})
}

// Announce makes a notice. The instance goes at the deadline of a
// SpotInterruption.
func (f *Fake) Announce(n cloud.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notices = append(f.notices, &announced{Notice: n})
	if m := f.machines[n.Instance]; m != nil && n.Kind == cloud.SpotInterruption {
		m.end(n.Deadline, f.options.Shutdown)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	f.move()
}

// Kill ends an instance at once and without a notice.
func (f *Fake) Kill(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.machines[id]; m != nil {
		m.end(time.Now(), 0)
		f.move()
	}
}

// Calls counts the calls of op so far, failed ones too.
func (f *Fake) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// Instances is the truth, without lag or fault: every instance that ever
// was, in order of launch.
func (f *Fake) Instances() []cloud.Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	all := make([]cloud.Instance, len(f.ids))
	for i, id := range f.ids {
		all[i] = f.machines[id].at(now)
	}
	return all
}

// Next is when time changes an instance next, zero if none is to change, and a
// channel that is closed when a call changes one. Look at Instances after it.
func (f *Fake) Next() (next time.Time, moved <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, m := range f.machines {
		for _, at := range []time.Time{m.running, m.ends, m.ended} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next, f.moved
}

// move tells those who wait for Next's channel.
func (f *Fake) move() {
	close(f.moved)
	f.moved = make(chan struct{})
}

// Nodes is what Assign has been told: instance id -> node name.
func (f *Fake) Nodes() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := map[string]string{}
	for id, m := range f.machines {
		if m.node != "" {
			nodes[id] = m.node
		}
	}
	return nodes
}

// Acknowledged lists the notices that were acknowledged.
func (f *Fake) Acknowledged() []cloud.Notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.acked)
}

// Assign implements cloud.Assigner.
func (f *Fake) Assign(ctx context.Context, nodes map[string]string) error {
	nodes = maps.Clone(nodes)
	lost, err := f.begin(ctx, Assign)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, node := range nodes {
		if m := f.machines[id]; m != nil {
			m.node = node
		}
	}
	f.move()
	return lost
}

// Acknowledge implements cloud.Acknowledger.
func (f *Fake) Acknowledge(ctx context.Context, n cloud.Notice) error {
	lost, err := f.begin(ctx, Acknowledge)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked = append(f.acked, n)
	return lost
}

// announced is a notice and whether it was handled.
type announced struct {
	cloud.Notice
	handled bool
}

// Notices implements cloud.NoticeSource.
func (f *Fake) Notices(ctx context.Context, handle func(context.Context, cloud.Notice) error) error {
	for {
		f.mu.Lock()
		changed := f.changed
		var open []*announced
		for _, n := range f.notices {
			if !n.handled {
				open = append(open, n)
			}
		}
		f.mu.Unlock()
		var retry <-chan time.Time
		for _, n := range open {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			notice := n.Notice
			notice.Received = time.Now()
			notice.Source = "fake"
			if handle(ctx, notice) != nil {
				retry = time.After(f.options.Retry)
				continue
			}
			f.mu.Lock()
			n.handled = true
			f.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-retry:
		}
	}
}

// matcher returns what a cloud.Filter keeps.
func matcher(f cloud.Filter) func(cloud.Instance) bool {
	in := func(list []string) func(string) bool {
		if len(list) == 0 {
			return func(string) bool { return true }
		}
		set := make(map[string]bool, len(list))
		for _, s := range list {
			set[s] = true
		}
		return func(s string) bool { return set[s] }
	}
	tokens, ids := in(f.Tokens), in(f.IDs)
	return func(i cloud.Instance) bool {
		return i.Cluster == f.Cluster && tokens(i.Token) && ids(i.ID)
	}
}
