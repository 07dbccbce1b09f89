package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

const (
	lookEvery  = 100 * time.Millisecond // at events and the job's output
	jobEvery   = 200 * time.Millisecond
	nodesEvery = time.Second
	askEvery   = 500 * time.Millisecond // what the rules of overflow say, as long as it is not known
	// endedTime is how long a job may stand as ended badly: an evicted one does,
	// until burstd has requeued it.
	endedTime = 20 * time.Second
	// leaveTime is how long a job may take to be moved to the cloud, and its nodes to boot.
	leaveTime = 90 * time.Second
	// silence is how long Slurm may give no answer.
	silence = 15 * time.Second
)

// show is a demo under way.
type show struct {
	o       Options
	site    *rig.Site
	program string // heat
	began   time.Time
	line    *timeline

	queue   []*queued
	heat    *queued   // of queue, the MPI job
	jobsAt  time.Time // of the last good reading
	askedAt time.Time // what the rules say
	held    float64   // USD that were committed when heat began
	seq     int64     // of the last event
	output  tail
	books   ledger
	ordered []eviction

	nodes         map[string]slurm.Node
	nodesAt       time.Time
	onprem        slurm.Node // as it was at the start
	onPremTouched string
}

// eviction is one that was ordered, and what came of it.
type eviction struct {
	node, instance string
	at             time.Time // of the notice
	restarts       int       // of the job, then
	running        time.Time
	computing      time.Time
}

func newShow(o Options, site *rig.Site, heat string, began time.Time) *show {
	s := &show{o: o, site: site, program: heat, began: began, line: &timeline{out: o.Out, tty: o.TTY, began: began}, queue: queue(heat, o)}
	s.heat = s.queue[slices.IndexFunc(s.queue, func(q *queued) bool { return q.name == heatName })]
	return s
}

// play goes through the whole demo.
func (s *show) play(ctx context.Context) (*Report, error) {
	if err := s.readNodes(ctx); err != nil {
		return nil, err
	}
	s.say("slurm", fmt.Sprintf("is up: the site's %s idle, the cloud's %s powered down; burstd answers",
		hostlist.FoldSorted(s.site.Cluster.OnPremNodes()), hostlist.FoldSorted(s.site.Cluster.CloudNodes())))
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ref := make(chan string, 1)
	go func() {
		sum, err := reference(ctx, s.site, s.program, s.o.run())
		if err != nil {
			cancel(err) // nothing could be compared in the end
		}
		ref <- sum
	}()
	err := s.runJobs(ctx)
	if err == nil {
		err = s.until(ctx, "all nodes are powered down", s.allOff)
	}
	if err != nil {
		if ctx.Err() != nil && outer.Err() == nil {
			err = context.Cause(ctx) // rather than what was cut off by it
		}
		cancel(nil)
	}
	sum := <-ref // also before its folder goes
	if err != nil {
		return nil, err
	}
	s.line.flushAll()
	return s.report(ctx, sum)
}

func (s *show) say(who, what string) {
	s.line.add(entry{at: time.Now(), who: who, what: what}, true)
	s.line.flushAll()
}

// runJobs submits all jobs, evicts heat twice and waits for their end.
func (s *show) runJobs(ctx context.Context) error {
	if err := s.submit(ctx); err != nil {
		return err
	}
	if err := s.leaves(ctx); err != nil {
		return err
	}
	for n := range evictions {
		at := s.o.Iterations * int64(n+1) / (evictions + 1)
		err := s.until(ctx, fmt.Sprintf("the job reaches iteration %d", at), func() bool {
			return s.books.reached >= at && s.heat.now.State == "RUNNING" && len(s.books.restarts) == n || s.books.done
		})
		if err != nil {
			return err
		}
		if s.books.done {
			break // too fast: the report says that evictions are missing
		}
		if err := s.evict(n); err != nil {
			return err
		}
	}
	return s.until(ctx, "all jobs end", s.completed)
}

// evict announces the end of one of the job's nodes: first its last one, then
// its first, which runs the batch script.
func (s *show) evict(n int) error {
	nodes, err := hostlist.Expand(s.heat.now.Nodes)
	if err != nil {
		return fmt.Errorf("the job's nodes: %w", err)
	}
	node := nodes[len(nodes)-1]
	if n > 0 {
		node = s.heat.now.BatchHost
	}
	e := eviction{node: node, at: time.Now(), restarts: s.heat.now.Restarts}
	if err := s.site.Control.Evict(node, s.o.Lead); err != nil {
		return err
	}
	all, err := s.site.Control.List()
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Node == node && m.State.Live() {
			e.instance = m.ID
		}
	}
	s.ordered = append(s.ordered, e)
	s.line.add(entry{at: e.at, who: "cloud", what: fmt.Sprintf("takes %s back: %s notice", node, s.o.Lead)}, true)
	return nil
}

// until looks at everything until done.
func (s *show) until(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := s.look(ctx); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// look reads what is new and puts it on the timeline.
func (s *show) look(ctx context.Context) error {
	if err := s.readEvents(ctx); err != nil {
		return err
	}
	if err := s.readOutput(); err != nil {
		return err
	}
	if err := s.lookAtJobs(ctx); err != nil {
		return err
	}
	s.readStays(ctx)
	if err := s.readHeld(ctx); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(s.nodesAt) >= nodesEvery {
		if err := s.readNodes(ctx); err != nil && now.Sub(s.nodesAt) > silence {
			return err
		}
	}
	s.line.flush(time.Now())
	if !s.books.done {
		s.line.progress(s.books.reached, s.o.Iterations)
	} else {
		s.line.setBar("")
	}
	return s.line.err // nobody reads: a closed pipe, for instance
}

func (s *show) readEvents(ctx context.Context) error {
	all, err := s.site.API.Events(ctx, s.seq, 0)
	if err != nil {
		return err
	}
	for _, e := range all {
		s.seq = e.Seq
		s.line.add(ofEvent(e))
		if slices.Contains(s.site.Cluster.OnPremNodes(), e.Node) {
			s.touch(fmt.Sprintf("%s: %s", e.Kind, e.Text))
		}
	}
	return nil
}

func (s *show) readOutput() error {
	lines, err := s.output.lines()
	if err != nil {
		return fmt.Errorf("reading the job's output: %w", err)
	}
	now := time.Now()
	for _, line := range lines {
		h, ok := parseHeat(line)
		if !ok {
			continue
		}
		s.books.add(h)
		s.line.add(ofHeat(h, now))
		if n := len(s.books.restarts); h.kind == heatBegins && n > 0 && n <= len(s.ordered) {
			s.ordered[n-1].computing = now
		}
	}
	return nil
}
