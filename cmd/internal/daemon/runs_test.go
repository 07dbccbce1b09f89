package daemon

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// past is a simulated Slurm with nodes that come at once, if boot does not say otherwise, and burstds that write its
// history into one journal.
type past struct {
	boot time.Duration
	*slurmtest.Controller
	*testing.T
	path  string
	pools map[string]string
	recorder
}

func newPast(t *testing.T, o slurmtest.Options) *past {
	t.Helper()
	p := &past{T: t, path: newJournal(t)}
	if p.pools, o.OnPrem = map[string]string{}, []string{"on1"}; o.Nodes == nil {
		o.Nodes = []string{"c1", "c2"}
	}
	for _, n := range o.Nodes {
		p.pools[n] = "p"
	}
	o.OnResume = func(nodes, _ string) {
		all, err := hostlist.Expand(nodes)
		if err != nil {
			t.Error(err)
		}
		time.Sleep(p.boot)
		for _, n := range all {
			p.Register(n)
		}
	}
	p.Controller = slurmtest.New(o)
	go p.Serve(t.Context())
	p.restart()
	return p
}

// restart has a new burstd on the same journal.
func (p *past) restart() {
	p.Helper()
	p.stop()
	st, err := store.Open(p.Context(), p.path)
	if err != nil {
		p.Fatal(err)
	}
	w := slurm.NewWatcher(slurm.New(p.Controller).Snapshot, minGap)
	hub := session.NewHub(session.HubConfig{}, st, slog.New(slog.DiscardHandler))
	p.recorder = recorder{Daemon: &Daemon{store: st, watcher: w, hub: hub, rates: &rates{pools: p.pools}, log: slog.New(slog.DiscardHandler)}}
}

func (p *past) stop() {
	if p.recorder.Daemon == nil {
		return
	}
	if err := p.store.Close(); err != nil {
		p.Error(err)
	}
}

// pass lets time pass, with a round every 30 s, and one at the end.
func (p *past) pass(d time.Duration) {
	p.Helper()
	for end := time.Now().Add(d); ; {
		if _, err := p.watcher.Fresh(p.Context(), time.Now()); err != nil {
			p.Fatal(err)
		}
		if err := p.record(p.Context()); err != nil {
			p.Error(err)
		}
		if !time.Now().Before(end) {
			return
		}
		time.Sleep(min(30*time.Second, time.Until(end)))
	}
}

// text has each run: job, state, "+" where it goes on, attempts, seconds.
func (p *past) text() string {
	p.Helper()
	jobs, err := p.Jobs(p.Context(), api.JobsQuery{UID: -1, Last: 100})
	if err != nil {
		p.Fatal(err)
	}
	var all []string
	for _, j := range jobs {
		goes := ""
		if !j.Over {
			goes = "+"
		}
		all = append(all, fmt.Sprintf("%d %s%s x%d %.0fs", j.Job, j.State, goes, j.Attempts, j.Seconds))
	}
	return strings.Join(all, ", ")
}

func TestRunsAreWrittenDown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		o    slurmtest.Options
		do   func(p *past)
		want string
	}{
		{"jobs end", slurmtest.Options{}, func(p *past) {
			p.Submit(slurmtest.Job{Requeue: true, Duration: 100 * time.Second})
			p.Submit(slurmtest.Job{Requeue: true, Duration: 200 * time.Second, ExitCode: 3})
			p.Submit(slurmtest.Job{Requeue: true, Duration: 50 * time.Second, Partition: "onprem"})
			p.pass(20 * time.Minute)
		}, "1 COMPLETED x1 100s, 2 FAILED x1 200s"},
		{"it runs", slurmtest.Options{}, func(p *past) { p.Submit(slurmtest.Job{Requeue: true, Duration: time.Hour}); p.pass(10 * time.Minute) }, "1 RUNNING+ x1 599s"},
		{"burstd is killed after each round", slurmtest.Options{}, func(p *past) {
			p.Submit(slurmtest.Job{Requeue: true, Duration: 100 * time.Second})
			for range 20 {
				p.pass(30 * time.Second)
				p.restart()
			}
		}, "1 COMPLETED x1 100s"},
		{"it ends while burstd is away", slurmtest.Options{}, func(p *past) {
			id := p.Submit(slurmtest.Job{Requeue: true, Duration: time.Hour})
			p.pass(time.Minute)
			p.stop()
			p.recorder.Daemon = nil
			p.Cancel(id)
			time.Sleep(4 * time.Minute)
			p.restart()
			p.pass(0)
		}, "1 CANCELLED x1 59s"},
		{"it begins and ends while burstd is away", slurmtest.Options{}, func(p *past) {
			p.Submit(slurmtest.Job{Requeue: true, Duration: time.Minute})
			time.Sleep(4 * time.Minute)
			p.restart()
			p.pass(10 * time.Minute)
		}, "1 COMPLETED x1 60s"},
		{"Slurm has forgotten it when burstd comes back", slurmtest.Options{}, func(p *past) {
			p.Submit(slurmtest.Job{Requeue: true, Duration: 2 * time.Minute})
			p.pass(time.Minute)
			time.Sleep(time.Hour)
			p.restart()
			p.pass(time.Minute)
		}, "1 UNKNOWN x1 59s"},
		{"it is requeued", slurmtest.Options{Hold: 10 * time.Second}, func(p *past) {
			id := p.Submit(slurmtest.Job{Requeue: true, Duration: 10 * time.Minute})
			p.pass(time.Minute)
			if err := slurm.New(p.Controller).Requeue(p.Context(), id); err != nil {
				p.Error(err)
			}
			p.pass(30 * time.Minute)
		}, "1 COMPLETED x2 664s"},
		{"it fails, and is requeued after a while", slurmtest.Options{}, func(p *past) {
			id := p.Submit(slurmtest.Job{Requeue: true, Duration: time.Minute, ExitCode: 1})
			p.pass(3 * time.Minute)
			if err := slurm.New(p.Controller).Requeue(p.Context(), id); err != nil {
				p.Error(err)
			}
			p.pass(0) // it waits
			p.restart()
			p.pass(20 * time.Minute)
		}, "1 FAILED x2 120s"},
		{"the journal cannot be written for a while", slurmtest.Options{}, func(p *past) {
			p.Submit(slurmtest.Job{Requeue: true, Duration: 2 * time.Minute})
			p.pass(time.Minute)
			p.stop() // its journal is closed
			time.Sleep(time.Second)
			if _, err := p.watcher.Fresh(p.Context(), time.Now()); err != nil {
				p.Fatal(err)
			}
			if err := p.record(p.Context()); err == nil {
				p.Error("it is written")
			}
			p.recorder.Daemon = nil
			p.restart()
			p.pass(4 * time.Minute)
		}, "1 COMPLETED x1 120s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPast(t, tt.o)
				defer func() { p.stop() }()
				tt.do(p)
				if got := p.text(); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

// TestWhatWasSaidIsReadOnce, and makes the job ours while Slurm shows it.
func TestWhatWasSaidIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t, slurmtest.Options{})
		defer func() { p.stop() }()
		said := func(job uint32) {
			t.Helper()
			k := session.Key{Job: job, Step: "0"}
			for _, c := range []session.Change{{Opened: []session.Session{{Hello: session.Hello{Key: k, Token: "t"}}}},
				{Closed: []session.End{{Key: k, Token: "t", Summary: &session.Summary{Label: "l"}}}}} {
				if err := p.store.CommitSession(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := func(shown []uint32, want ...uint32) {
			t.Helper()
			snap := &slurm.Snapshot{Jobs: map[uint32]slurm.Job{}}
			for _, id := range shown {
				snap.Jobs[id] = slurm.Job{ID: id}
			}
			in, err := p.about(t.Context(), snap)
			if got := slices.Sorted(maps.Keys(in.Spoken)); err != nil || !slices.Equal(got, want) || len(got) > 0 && in.Spoken[got[0]].Label != "l" {
				t.Errorf("%v have spoken, not %v: %+v, %v", got, want, in.Spoken, err)
			}
		}
		said(1)
		want(nil, 1)
		said(2)
		time.Sleep(50 * time.Second) // its commit took as long
		want([]uint32{1}, 1, 2)
		time.Sleep(10 * time.Minute)
		want([]uint32{1, 2}, 1, 2)
		want([]uint32{2}, 2)
		want([]uint32{1, 2}, 2)
		p.restart()
		want([]uint32{1}, 1, 2)
	})
}
