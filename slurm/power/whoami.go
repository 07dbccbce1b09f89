package power

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Identity says which node an instance is.
type Identity struct {
	Node    string
	Cluster string // the cluster's random id
}

// What WhoAmI and Report answer with.
var (
	// ErrNotYet: the instance, its address or its node is not known so far; it asks again.
	ErrNotYet = errors.New("not known yet")
	// ErrNotYours: the instance is to end, or it has another address.
	ErrNotYours = errors.New("the instance is no node of this cluster, or has another address")
)

// What a node reports of its boot.
const (
	ReportReachable = "reachable" // the same as its first WhoAmI
	ReportSetup     = "setup"     // the site's commands begin
	ReportReady     = "ready"     // slurmd has been started
	ReportFailed    = "failed"    // with the failing line
)

var reported = map[string]Stage{ReportReachable: StageReachable, ReportSetup: StageSetup, ReportReady: StageReady, ReportFailed: StageReachable}

// word is what a node has said of its boot.
type word struct {
	instance, stage, text string
	at                    time.Time
	written               chan error // told when the journal has it; nil: nobody waits
}

// maxWords bounds what waits to be written; each is a node's.
const maxWords = 20000

// WhoAmI says which node the instance at an address is. It does so only when
// Slurm has the node's address: a slurmd that registers earlier would be looked
// for at the old one. The first call is noted as the time at which the node was
// reachable, whatever its answer.
func (e *Engine) WhoAmI(_ context.Context, instance, addr string) (Identity, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err := e.identify(instance, addr)
	if err == nil || errors.Is(err, errNoAddr) {
		if b := e.mem.boots[n.Name]; n.Phase == Booting && b.Reachable.IsZero() && !e.spoke[instance] && len(e.words) < maxWords {
			e.spoke[instance] = true
			e.words = append(e.words, word{instance: instance, stage: ReportReachable, at: time.Now()})
			e.Wake()
		}
	}
	switch {
	case err != nil:
		return Identity{}, err
	case !n.AddrSet:
		return Identity{}, fmt.Errorf("%w: Slurm has not been told the address of node %s", ErrNotYet, n.Name)
	}
	return Identity{Node: n.Name, Cluster: e.cfg.Cluster}, nil
}

// errNoAddr is the ErrNotYet of an instance whose node is known and whose address is not.
var errNoAddr = fmt.Errorf("%w: the cloud has not told the instance's address", ErrNotYet)

// identify is the node that the instance is. The caller holds e.mu.
func (e *Engine) identify(instance, addr string) (Node, error) {
	i, ok := e.mem.instances[instance]
	switch n := e.mem.nodes[i.Assigned]; {
	case !ok:
		return Node{}, fmt.Errorf("%w: no launch has brought instance %s so far", ErrNotYet, instance)
	case i.Doomed != "":
		return Node{}, fmt.Errorf("%w: %s ends: %s", ErrNotYours, instance, i.Doomed)
	case i.Addr != "" && !sameAddr(i.Addr, addr):
		return Node{}, fmt.Errorf("%w: %s is at %s, not at %s", ErrNotYours, instance, i.Addr, addr)
	case n.Instance != instance || n.Phase != Booting && n.Phase != Up:
		return Node{}, fmt.Errorf("%w: instance %s serves no node", ErrNotYet, instance)
	case i.Addr == "":
		return n, errNoAddr
	default:
		return n, nil
	}
}

// Identify is the node that the instance at an address is: booting or up, and
// whatever Slurm knows of its address. provider is who has launched it.
func (e *Engine) Identify(instance, addr string) (n Node, provider string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err = e.identify(instance, addr)
	return n, e.mem.instances[instance].Provider, err
}

// sameAddr compares two addresses, of which one may be written as IPv4 in IPv6.
func sameAddr(a, b string) bool {
	x, xerr := netip.ParseAddr(a)
	y, yerr := netip.ParseAddr(b)
	if xerr != nil || yerr != nil {
		return a == b
	}
	return x.Unmap().WithZone("") == y.Unmap().WithZone("")
}

// Report takes a node's word on its boot. It returns when the journal has it.
// A failed one is a boot failure at once; text is its failing line.
func (e *Engine) Report(ctx context.Context, instance, addr, stage, text string) error {
	if _, ok := reported[stage]; !ok {
		return fmt.Errorf("%q is no stage of a boot", stage)
	}
	e.mu.Lock()
	_, err := e.identify(instance, addr)
	if err == nil && len(e.words) >= maxWords {
		err = fmt.Errorf("%w: too many reports wait to be written", ErrNotYet)
	}
	if err != nil {
		e.mu.Unlock()
		return err
	}
	w := word{instance, stage, text, time.Now(), make(chan error, 1)}
	e.words = append(e.words, w)
	e.mu.Unlock()
	e.Wake()
	select {
	case err := <-w.written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeWords writes what nodes have said, all that has come in one change.
func (e *Engine) takeWords(ctx context.Context) (time.Duration, error) {
	e.mu.Lock()
	words := e.words
	e.words = nil
	e.mu.Unlock()
	if len(words) == 0 {
		return 0, nil
	}
	err := e.hear(ctx, words)
	e.mu.Lock()
	for _, w := range words {
		delete(e.spoke, w.instance) // the journal has it, or it is noted at the next call
	}
	e.mu.Unlock()
	for _, w := range words {
		if w.written != nil {
			w.written <- err
		}
	}
	return 0, err
}

func (e *Engine) hear(ctx context.Context, words []word) error {
	var c Change
	boots := map[string]Boot{}
	var failures []word
	for _, w := range words {
		i := e.mem.instances[w.instance]
		b, ok := boots[i.Assigned]
		if !ok {
			b, ok = e.mem.boots[i.Assigned]
		}
		if ok && b.Instance == w.instance && b.note(reported[w.stage], w.at) {
			boots[b.Node] = b
		}
		if i.Addr == "" {
			delete(e.looked, "addresses of "+i.Provider) // it is up, so the cloud has one
		}
		if w.stage == ReportFailed {
			failures = append(failures, w)
		}
	}
	for _, b := range boots {
		c.Boots = append(c.Boots, b)
	}
	if err := e.commit(ctx, c); err != nil || len(failures) == 0 {
		return err
	}
	// What has registered all the same is not given up: it may run a job by now.
	snap, err := e.slurm.Fresh(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("failed boots wait for Slurm's answer: %w", err)
	}
	if err := e.commit(ctx, e.booted(snap, e.mem.inPhase(Booting))); err != nil {
		return err
	}
	for _, w := range failures {
		n := e.mem.nodes[e.mem.instances[w.instance].Assigned]
		if n.Instance != w.instance || n.Phase != Booting {
			continue
		}
		var c Change
		why := "its boot failed: " + w.text
		if short := oneLine(why); len(short) < len(why) {
			c.Events = append(c.Events, Event{Time: w.at, Kind: "boot-report", Node: n.Name, Instance: w.instance, Pool: n.Pool, Job: n.Job,
				Text: tail(w.text, consoleText)})
			why = short
		}
		e.bootFailed(&c, n, why, snap)
		if err := e.commit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
