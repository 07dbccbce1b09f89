package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	// endedTime is how long a job may stand as ended badly: an evicted one does,
	// until burstd has requeued it.
	endedTime = 20 * time.Second
	// silence is how long Slurm may give no answer.
	silence = 15 * time.Second
)

// show is a demo under way.
type show struct {
	o     Options
	site  *rig.Site
	heat  string
	began time.Time
	line  *timeline

	id      uint32
	job     slurm.Job
	jobAt   time.Time // of the last good reading
	endedAt time.Time // when the job was first seen ended, and not completed
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

// play goes through the whole demo.
func (s *show) play(ctx context.Context) (*Report, error) {
	if err := s.readNodes(ctx); err != nil {
		return nil, err
	}
	s.say("slurm", fmt.Sprintf("is up: %s powered down, %s idle; burstd answers",
		hostlist.FoldSorted(s.site.Cluster.CloudNodes()), hostlist.FoldSorted(s.site.Cluster.OnPremNodes())))
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ref := make(chan string, 1)
	go func() {
		sum, err := reference(ctx, s.site, s.heat, s.o.run())
		if err != nil {
			cancel(err) // nothing could be compared in the end
		}
		ref <- sum
	}()
	err := s.runJob(ctx)
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
	return s.report(sum)
}

func (s *show) say(who, what string) {
	s.line.add(entry{at: time.Now(), who: who, what: what}, true)
	s.line.flushAll()
}

// runJob submits the job, evicts it twice and waits for its end.
func (s *show) runJob(ctx context.Context) error {
	text := script(s.heat, s.o)
	if err := os.WriteFile(filepath.Join(s.site.Work, jobScript), []byte(text), 0o755); err != nil {
		return err
	}
	var err error
	if s.id, err = s.site.Submit(ctx, text); err != nil {
		return err
	}
	s.output.path = filepath.Join(s.site.Work, jobOutput)
	s.say("job", fmt.Sprintf("%d is submitted: heat on %d nodes, %d iterations", s.id, s.o.JobNodes, s.o.Iterations))
	for n := range evictions {
		at := s.o.Iterations * int64(n+1) / (evictions + 1)
		err := s.until(ctx, fmt.Sprintf("the job reaches iteration %d", at), func() bool {
			return s.books.reached >= at && s.job.State == "RUNNING" && len(s.books.restarts) == n || s.books.done
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
	return s.until(ctx, "the job ends", func() bool { return s.job.State == "COMPLETED" })
}

// evict announces the end of one of the job's nodes: first its last one, then
// its first, which runs the batch script.
func (s *show) evict(n int) error {
	nodes, err := hostlist.Expand(s.job.Nodes)
	if err != nil {
		return fmt.Errorf("the job's nodes: %w", err)
	}
	node := nodes[len(nodes)-1]
	if n > 0 {
		node = s.job.BatchHost
	}
	e := eviction{node: node, at: time.Now(), restarts: s.job.Restarts}
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
	if now := time.Now(); now.Sub(s.jobAt) >= jobEvery && s.job.State != "COMPLETED" {
		if err := s.readJob(ctx); err != nil && now.Sub(s.jobAt) > silence {
			return err
		}
		if !s.endedAt.IsZero() && now.Sub(s.endedAt) > endedTime {
			return fmt.Errorf("the job has ended as %s, exit code %d", s.job.State, s.job.ExitCode)
		}
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

func (s *show) readJob(ctx context.Context) error {
	if s.id == 0 {
		return nil
	}
	j, err := s.site.Job(ctx, s.id)
	if err != nil {
		return err
	}
	now := time.Now()
	s.line.add(ofJob(s.job, j, now))
	s.job, s.jobAt = j, now
	for i := range s.ordered {
		if e := &s.ordered[i]; e.running.IsZero() && j.State == "RUNNING" && j.Restarts > e.restarts {
			e.running = now
		}
	}
	switch j.State {
	case "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "BOOT_FAIL", "OUT_OF_MEMORY", "PREEMPTED":
		if s.endedAt.IsZero() {
			s.endedAt = now
		}
	default:
		s.endedAt = time.Time{}
	}
	return nil
}
