package ft_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// purse has all jobs go but those that stay, and has those wait that were requeued.
type purse struct {
	w     *world
	stays uint32
	room  bool // there is something to spend again

	mu  sync.Mutex
	off []uint32
}

func (p *purse) Goes(j slurm.Job) bool { return j.ID != p.stays && j.Restarts == 0 }

func (p *purse) PutOff(_ context.Context, job uint32) (bool, error) {
	if p.room {
		return false, nil
	}
	if err := p.w.life.point("put off"); err != nil {
		return false, err
	}
	p.mu.Lock()
	if !slices.Contains(p.off, job) {
		p.off = append(p.off, job)
	}
	p.mu.Unlock()
	return true, p.w.life.point("was put off")
}

// spend has the guard hear that what may be spent is, as burstd does at each look.
func (w *world) spend(l *life, look int, nodes ...string) {
	for _, n := range nodes {
		_ = l.guard.Hear(w.ctx, "fake", cloud.Notice{Instance: w.instance(n), Kind: ft.Spent, Received: time.Now(), Source: "burstd", Event: fmt.Sprint(look)})
	}
}

func TestSpent(t *testing.T) {
	signalled := slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n#BURST signal=USR1 grace=10s\n"}
	for _, c := range []struct {
		name  string
		job   func(s *site) slurmtest.Job
		room  bool
		stays string // part of what is said of one that does
		kinds []session.Kind
		sigs  int
	}{
		{name: "its steps checkpoint", job: func(s *site) slurmtest.Job { return s.srun(1, step{takes: 3 * time.Second}) }, kinds: []session.Kind{session.Stop}},
		{name: "on two nodes", job: func(s *site) slurmtest.Job { return s.srun(2, step{takes: 3 * time.Second}) }, kinds: []session.Kind{session.Stop}},
		{name: "there is something to spend again", job: func(s *site) slurmtest.Job { return s.srun(1, step{takes: time.Second}) }, room: true, kinds: []session.Kind{session.Stop}},
		{name: "its steps fail to", job: func(s *site) slurmtest.Job {
			return s.srun(1, step{takes: time.Second, fails: "the disk is full", stays: true})
		},
			stays: "goes on to its end: step 0: the disk is full", kinds: []session.Kind{session.Stop, session.Cancel}},
		{name: "its user has named a signal", job: func(*site) slurmtest.Job { return signalled }, sigs: 1},
		{name: "of two steps one has made no checkpoint yet", job: func(s *site) slurmtest.Job {
			return s.srun(1, step{takes: time.Second, hello: session.Hello{Cost: time.Second}}, step{takes: time.Second})
		}, stays: "-"},
		{name: "of two steps one takes too long", job: func(s *site) slurmtest.Job {
			return s.srun(1, step{takes: time.Second, hello: session.Hello{Cost: time.Second}}, step{takes: time.Second, hello: session.Hello{Cost: 20 * time.Minute}})
		}, stays: "-"},
		{name: "two steps checkpoint", job: func(s *site) slurmtest.Job {
			return s.srun(1, step{takes: time.Second, hello: session.Hello{Cost: time.Second}}, step{takes: 2 * time.Second, hello: session.Hello{Cost: time.Second}})
		}, kinds: []session.Kind{session.Stop}},
		{name: "it has no method", job: func(*site) slurmtest.Job { return slurmtest.Job{Requeue: true, Script: "#!/bin/sh\n"} }, stays: "-"},
		{name: "Slurm may not requeue it", job: func(s *site) slurmtest.Job { j := s.srun(1, step{}); j.Requeue = false; return j }, stays: "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				s, p := newSite(w), &purse{w: w, room: c.room}
				l := s.start(ft.Config{Spent: p, Signal: "USR2", Grace: 5 * time.Second}, 0)
				id := w.begin(c.job(s))[0]
				time.Sleep(time.Minute)
				w.spend(l, 1, w.info(id).Nodes...)
				w.closed(20 * time.Minute)
				time.Sleep(time.Minute)
				i := w.info(id)
				if got := s.kinds(); !slices.Equal(got, c.kinds) || len(i.Signals) != c.sigs {
					t.Errorf("asked %v, signals %v", got, i.Signals)
				}
				switch {
				case c.stays != "":
					if i.State != "RUNNING" || i.Restarts != 0 || len(p.off) > 0 || c.stays != "-" && !strings.Contains(i.AdminComment, c.stays) {
						t.Errorf("%+v, put off %v\n%s", i, p.off, w.story())
					}
				case c.room:
					if i.State != "RUNNING" || i.Restarts != 1 || !strings.Contains(i.AdminComment, "the budget was spent; requeued") {
						t.Errorf("%+v\n%s", i, w.story())
					}
				case i.State == "RUNNING" && i.Restarts == 0 || i.Restarts != 1 || !slices.Equal(p.off, []uint32{id}):
					t.Errorf("%+v, put off %v\n%s", i, p.off, w.story())
				}
				if len(w.fake.Acknowledged()) > 0 {
					t.Error("the cloud is told that nothing of ours runs there")
				}
			})
		})
	}
}

// TestSpentLeavesOthersAlone: a job that does not count to the cap keeps the node, and the next look
// at the caps may find that it does.
func TestSpentLeavesOthersAlone(t *testing.T) {
	bubble(t, "c[1-2]", func(w *world) {
		s, p := newSite(w), &purse{w: w}
		l := s.start(ft.Config{Spent: p}, 0)
		id := w.begin(s.srun(1, step{takes: time.Second}))[0]
		p.stays = id
		w.spend(l, 1, "c1")
		w.closed(time.Minute)
		if w.Node("c1") != "ALLOCATED+CLOUD" || w.info(id).Restarts > 0 {
			t.Errorf("node %s, job %+v", w.Node("c1"), w.info(id))
		}
		p.stays = 0
		w.spend(l, 2, "c1")
		w.until(time.Minute, "it is requeued", func() bool { return w.info(id).Restarts == 1 })
		w.closed(5 * time.Minute)
		if !strings.Contains(w.Node("c1"), "POWER") {
			t.Errorf("its node is %s", w.Node("c1"))
		}
	})
}

// TestSpentGoesOnLate: a job that computes on for hours, as burstd is away, is not requeued for what was asked then.
func TestSpentGoesOnLate(t *testing.T) {
	for _, signals := range []bool{true, false} {
		bubble(t, "c[1-2]", func(w *world) {
			s, p := newSite(w), &purse{w: w}
			l := s.start(ft.Config{Spent: p}, 0)
			job := slurmtest.Job{Requeue: true, TimeLimit: 10 * time.Hour, Duration: 8 * time.Hour, Script: "#!/bin/sh\n#BURST signal=USR1 grace=10s\n"}
			if !signals {
				job = s.srun(1, step{takes: time.Hour, stays: true})
				job.TimeLimit, job.Duration = 10*time.Hour, 8*time.Hour
			}
			id := w.begin(job)[0]
			w.spend(l, 1, "c1")
			w.until(time.Minute, "it is asked", func() bool { return len(w.info(id).Signals)+len(s.kinds()) > 0 })
			w.until(time.Minute, "that is written", func() bool { return strings.Contains(w.story(), "signal") || !signals })
			w.die()
			time.Sleep(3 * time.Hour)
			s.start(ft.Config{Spent: p}, 0)
			w.closed(5 * time.Minute)
			if i := w.info(id); i.State != "RUNNING" || i.Restarts > 0 || len(i.Signals) > 1 || len(p.off) > 0 {
				t.Errorf("%+v\n%s", i, w.story())
			}
		})
	}
}

// TestSpentKillAtEveryPoint: whenever burstd dies, the job's steps are asked once, it is requeued once and waits.
func TestSpentKillAtEveryPoint(t *testing.T) {
	play := func(t *testing.T, at int) (points []string) {
		bubble(t, "c[1-4]", func(w *world) {
			s, p := newSite(w), &purse{w: w}
			l := s.start(ft.Config{Spent: p}, at)
			id := w.begin(s.srun(1, step{takes: 10 * time.Second}))[0]
			time.Sleep(time.Minute)
			w.spend(l, 1, "c1")
			if at > 0 {
				w.until(3*time.Minute, "burstd is dead", l.isDead)
				w.die()
				time.Sleep(5 * time.Second)
				again := s.start(ft.Config{Spent: p}, 0)
				time.Sleep(time.Second)
				if i := w.info(id); i.State == "RUNNING" && i.Restarts == 0 {
					w.spend(again, 2, "c1") // burstd's next look
				}
			}
			w.until(3*time.Minute, "it is requeued, and waits", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.off) == 1 && w.info(id).Restarts == 1
			})
			w.closed(3 * time.Minute)
			if i := w.info(id); !slices.Equal(s.kinds(), []session.Kind{session.Stop}) || s.done != 1 || s.good(id) != 0 {
				t.Errorf("%+v, asked %v, done %d times", i, s.kinds(), s.done)
			}
			l.mu.Lock()
			points = l.points
			l.mu.Unlock()
		})
		return points
	}
	points := play(t, 0)
	if len(points) < 10 {
		t.Errorf("only %d points: %v", len(points), points)
	}
	for i, p := range points {
		if testing.Short() && i%6 != 0 {
			continue
		}
		t.Run(p, func(t *testing.T) { play(t, i+1) })
	}
}
