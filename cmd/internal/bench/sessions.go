package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	sessionsOpen = 5000
	sessionIdle  = 30 * time.Second
	sessionsFor  = 90 * time.Second // in which each asks three times
	sessionLooks = 10               // samples, a second apart
)

func sessionsRSS() Bench {
	return Bench{
		Name: "sessions-5000-rss",
		Method: fmt.Sprintf("resident memory of a real burstd with %d sessions, over that of the same burstd before they were opened, %s after its start, with the same %[1]d jobs in Slurm; "+
			"each session is a burst-srun's client with its own connections, from one of %[3]d addresses, that has asked for %[4]s by long polls over HTTP with real MUNGE both ways; "+
			"Slurm's commands are answered by a simulation: median of %[5]d samples, a second apart", sessionsOpen, sessionIdle, sessionHosts, sessionsFor, sessionLooks),
		Unit:   "MB",
		Better: Lower,
		Goal:   200,
		Run:    measureSessions,
	}
}

func measureSessions(ctx context.Context, env Env) (samples []float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errors.New("not within 10 minutes"))
	defer cancel()
	w, err := newSessionWorld(ctx, env, sessionsOpen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := pause(ctx, sessionIdle); err != nil {
		return nil, err
	}
	idle, _, err := memoryOf(w.pid())
	if err != nil {
		return nil, err
	}
	clients := newClients(ctx, sessionsOpen, 0, w.link)
	defer clients.stop()
	if err := clients.await(ctx, func() (bool, error) { n, err := w.sessions(ctx); return n == sessionsOpen, err }); err != nil {
		return nil, fmt.Errorf("opening %d sessions: %w; burstd's log begins: %s", sessionsOpen, err, w.logged())
	}
	if err := pause(ctx, sessionsFor); err != nil {
		return nil, err
	}
	var all float64
	for range sessionLooks {
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
		now, most, err := memoryOf(w.pid())
		if err != nil {
			return nil, err
		}
		samples, all = append(samples, now-idle), max(all, most)
	}
	env.note("the idle one had %.1f MB, the peak was %.1f MB in all; %d questions failed and were asked again", idle, all, clients.failures())
	if n, err := w.sessions(ctx); err != nil || n != sessionsOpen {
		return nil, errors.Join(fmt.Errorf("%d sessions are open at the end", n), err)
	}
	return samples, clients.trouble()
}

const (
	ordersJobs = 300
	ordersRuns = 5
)

func ordersOut() Bench {
	return Bench{
		Name: "orders-300",
		Method: fmt.Sprintf("%d notices of spot interruptions at once, each by a caller of its own, for the nodes of %[1]d jobs: from the first, through burstd's guard, its journal on disk and a simulated slurmctld "+
			"of %[2]d nodes whose commands take what real ones do, until the last of as many clients of burst-srun, each waiting in a long poll over HTTP with real MUNGE both ways, has the order to checkpoint, "+
			"its turn come or not (of those %[3]d at once); all in one process: the slowest of %[4]d runs", ordersJobs, 2*ordersJobs, ordersAtOnce, ordersRuns),
		Unit:    "s",
		Better:  Lower,
		Goal:    1,
		Run:     measureOrders,
		Summary: Max,
	}
}

func measureOrders(ctx context.Context, env Env) (samples []float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("not within 5 minutes"))
	defer cancel()
	w, err := newHubWorld(ctx, env)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	ids, err := w.submit()
	if err != nil {
		return nil, err
	}
	for run := range ordersRuns {
		took, err := w.orders(ctx, ids, run)
		if err != nil {
			return nil, err
		}
		samples = append(samples, took.Seconds())
	}
	env.note("the runs, one after the other: %.3f s", samples)
	return samples, nil
}

// orders is one run, of the jobs' attempt of that number: they run again afterwards.
func (w *hubWorld) orders(ctx context.Context, ids []uint32, attempt int) (time.Duration, error) {
	nodes, err := w.running(ctx, ids)
	if err != nil {
		return 0, err
	}
	clients := newClients(ctx, ordersJobs, attempt, w.link)
	defer clients.stop()
	if err := clients.await(ctx, func() (bool, error) { return w.allWait(attempt) }); err != nil {
		return 0, fmt.Errorf("%d clients wait for orders: %w", ordersJobs, err)
	}
	begun := w.take(ctx, nodes)
	last, err := clients.heard(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := w.running(ctx, ids); err != nil { // each has been requeued by its answer
		return 0, err
	}
	for _, id := range ids {
		if i, _ := w.ctl.Info(id); i.Restarts != attempt+1 {
			return 0, fmt.Errorf("job %d has been requeued %d times in %d runs", id, i.Restarts, attempt+1)
		}
	}
	return last.Sub(begun), clients.trouble()
}
