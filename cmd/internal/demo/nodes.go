package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
)

// readNodes reads Slurm's nodes, and watches the on-prem one.
func (s *show) readNodes(ctx context.Context) error {
	all, err := s.site.Slurm().Nodes(ctx)
	if err != nil {
		return err
	}
	first := s.nodes == nil
	s.nodes, s.nodesAt = map[string]slurm.Node{}, time.Now()
	for _, n := range all {
		s.nodes[n.Name] = n
		if !slices.Contains(s.site.Cluster.OnPremNodes(), n.Name) {
			continue
		}
		if first {
			s.onprem = n
		}
		if why := touched(s.onprem, n); why != "" {
			s.touch(why)
		}
	}
	return nil
}

// touched says what differs in a node that Burst should leave alone: jobs come and go there.
func touched(start, now slurm.Node) string {
	ours := func(flag string) bool { return flag != slurm.Completing && flag != "PLANNED" }
	switch {
	case !slices.Contains([]string{"IDLE", "MIXED", "ALLOCATED"}, now.State.Base) || slices.ContainsFunc(now.State.Flags, ours):
		return "it was " + now.State.String()
	case !now.Started.Equal(start.Started):
		return "its slurmd was started again"
	}
	return ""
}

// touch remembers what happened first to the on-prem node.
func (s *show) touch(what string) {
	if s.onPremTouched == "" {
		s.onPremTouched = what
	}
}

// up lists the cloud nodes that are not powered down.
func (s *show) up() []string {
	up := []string{}
	for _, name := range s.site.Cluster.CloudNodes() {
		if n := s.nodes[name]; !off(n.State) {
			up = append(up, fmt.Sprintf("%s (%s)", name, n.State))
		}
	}
	return up
}

func off(s slurm.NodeState) bool {
	return s.Base == "IDLE" && s.Has(slurm.PoweredDown) && !s.Has(slurm.PoweringUp) && !s.Has(slurm.PowerUp)
}

// left counts the instances that still live.
func (s *show) left() (int, error) {
	all, err := s.site.Control.List()
	n := 0
	for _, m := range all {
		if m.State.Live() {
			n++
		}
	}
	return n, err
}

// allOff says whether Slurm has every cloud node powered down and no instance lives.
func (s *show) allOff() bool {
	n, err := s.left()
	return err == nil && n == 0 && len(s.up()) == 0
}

// report gathers what is known at the end.
func (s *show) report(ctx context.Context, reference string) (*Report, error) {
	r := &Report{
		Job: s.heat.id, JobState: s.heat.now.State, Iterations: s.o.Iterations, Seconds: seconds(time.Since(s.began)),
		Evictions: []Eviction{}, Restarts: len(s.books.restarts), Checksum: s.books.checksum, Reference: reference,
		NodesUp: s.up(), OnPremTouched: s.onPremTouched, Failures: []string{},
	}
	for i, e := range s.ordered {
		out := Eviction{Node: e.node, Instance: e.instance, Lead: seconds(s.o.Lead), At: seconds(e.at.Sub(s.began))}
		if i < len(s.books.restarts) && !e.running.IsZero() {
			b := s.books.restarts[i]
			out.Restarted, out.Reached, out.From, out.Lost = true, b.reached, b.from, b.lost()
			out.Running, out.Computing = seconds(e.running.Sub(e.at)), seconds(e.computing.Sub(e.at))
			r.Lost += out.Lost
		}
		r.Evictions = append(r.Evictions, out)
	}
	moved, err := s.site.API.Overflows(ctx, api.OverflowQuery{Last: api.MaxOverflows})
	if err != nil {
		return nil, err
	}
	r.Jobs = ran(s.queue, moved)
	r.InstancesLeft, err = s.left()
	return r, err
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
