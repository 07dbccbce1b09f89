package ft_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

var errLost = errors.New("connect failure")

// once fails the first command that begins with prefix, before or after its effect.
func once(prefix string, after bool) func(cmd string) error {
	var did sync.Once
	return func(cmd string) (err error) {
		if strings.HasPrefix(cmd, prefix) {
			did.Do(func() { err = &slurmtest.Fault{After: after, Err: errLost, Delay: time.Second} })
		}
		return err
	}
}

// TestLostCommands: each command of an eviction is lost once, or its answer is.
func TestLostCommands(t *testing.T) {
	for _, cmd := range []string{"scontrol update nodename", "scontrol -o show nodes", "squeue", "scontrol write batch_script", "scancel",
		"scontrol requeue", "scontrol update jobid=1 starttime", "scontrol update jobid=1 admincomment"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after %t", cmd, after), func(t *testing.T) {
				bubble(t, "c[1-4]", func(w *world) {
					id := w.begin(leaves(w, 2, 75))[0]
					w.start(ft.Config{}, 0)
					w.failing(once(cmd, after))
					w.evict("c1", 2*time.Minute)
					w.again(30*time.Second, id, 1)
					w.closed(time.Minute)
					i := w.info(id)
					if n := len(i.Signals); n < 1 || n > 2 || n == 2 && cmd != "scancel" {
						t.Errorf("signals %v\n%s", i.Signals, w.story())
					}
				})
			})
		}
	}
}

// TestSlurmDoesNotAnswer for half a minute: what was asked meanwhile is done after.
func TestSlurmDoesNotAnswer(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		id := w.begin(leaves(w, 1, 75))[0]
		w.start(ft.Config{}, 0)
		w.Down()
		w.evict("c1", 2*time.Minute)
		time.Sleep(30 * time.Second)
		w.Up()
		w.again(20*time.Second, id, 1)
		if i := w.info(id); len(i.Signals) != 1 {
			t.Errorf("signals %v", i.Signals)
		}
	})
}

// TestSlowSlurm: every command takes five seconds.
func TestSlowSlurm(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		id := w.begin(leaves(w, 2, 75))[0]
		w.failing(func(string) error { return &slurmtest.Fault{Delay: 5 * time.Second} })
		w.start(ft.Config{}, 0)
		w.evict("c1", 2*time.Minute)
		w.evict("c2", 2*time.Minute)
		w.again(5*time.Minute, id, 1)
		w.closed(10 * time.Minute)
		if i := w.info(id); len(i.Signals) != 1 || i.Restarts != 1 {
			t.Errorf("%+v\n%s", i, w.story())
		}
	})
}

// TestRefusedDrain: a node that Slurm will not power down is closed, and its
// job moved, all the same.
func TestRefusedDrain(t *testing.T) {
	for _, also := range []string{"", "state=drain"} {
		bubble(t, "c[1-4]", func(w *world) {
			id := w.begin(leaves(w, 1, 75))[0]
			w.failing(func(cmd string) error {
				if strings.Contains(cmd, "state=power_down_asap") || also != "" && strings.Contains(cmd, also) {
					return &slurmtest.ExitError{Code: 1} // its words are added below
				}
				return nil
			})
			w.start(ft.Config{}, 0)
			w.refuse = "slurm_update error: Invalid node state specified\n"
			w.evict("c1", 2*time.Minute)
			w.again(20*time.Second, id, 1)
			if i := w.info(id); len(i.Signals) != 1 || also == "" && slices.Contains(i.Nodes, "c1") {
				t.Errorf("%+v\n%s", i, w.story())
			}
			w.closed(3 * time.Minute)
		})
	}
}

// TestAFinishedJobIsNotRequeued: it exits with 0 between our look and our word.
func TestAFinishedJobIsNotRequeued(t *testing.T) {
	for _, tt := range []struct {
		name, state string
		end         func(w *world, id uint32)
	}{
		{"finished", "COMPLETED", func(w *world, id uint32) { w.Exit(id, 0) }},
		{"cancelled", "CANCELLED", func(w *world, id uint32) { w.Cancel(id) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-4]", func(w *world) {
				id := w.begin(stays(w))[0]
				w.start(ft.Config{}, 0)
				w.failing(func(cmd string) error {
					if strings.HasPrefix(cmd, "scontrol requeue") {
						tt.end(w, id)
						return &slurmtest.Fault{Delay: time.Second}
					}
					return nil
				})
				w.evict("c1", 2*time.Minute)
				w.closed(time.Minute)
				if i := w.info(id); i.State != tt.state || i.Restarts != 0 {
					t.Errorf("%+v", i)
				}
			})
		})
	}
}

// TestSeveralJobsOnANode: trouble with one costs the other nothing.
func TestSeveralJobsOnANode(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		ids := w.begin(stays(w), leaves(w, 1, 75), stays(w))
		w.rewrite = func(s *slurm.Snapshot) { // nodes are allocated whole: play that job 2 shares c1
			if j := s.Jobs[ids[1]]; j.State == "RUNNING" && j.Restarts == 0 {
				j.Nodes = "c1"
				s.Jobs[ids[1]] = j
			}
		}
		w.failing(once(fmt.Sprint("scancel --signal=USR1 ", ids[1]), false))
		w.start(ft.Config{}, 0)
		w.evict("c1", 2*time.Minute)
		w.until(5*time.Second, "both are signalled", func() bool { return len(w.info(ids[0]).Signals) == 1 && len(w.info(ids[1]).Signals) == 1 })
		w.again(10*time.Second, ids[1], 1)
		w.again(30*time.Second, ids[0], 1)
		if i := w.info(ids[2]); i.Restarts > 0 || len(i.Signals) > 0 {
			t.Errorf("a job on another node was touched: %+v", i)
		}
	})
}

// TestAPartOfAHeterogeneousJob: its leader has the script, and is what Slurm
// lets one signal and requeue.
func TestAPartOfAHeterogeneousJob(t *testing.T) {
	bubble(t, "c[1-6]", func(w *world) {
		part := slurmtest.Job{Requeue: true, Script: "#!/bin/sh\nexit 0\n"}
		ids := w.begin(leaves(w, 1, 75), part, part)
		w.rewrite = func(s *slurm.Snapshot) {
			for _, id := range ids {
				j := s.Jobs[id]
				j.HetID = ids[0]
				s.Jobs[id] = j
			}
		}
		w.start(ft.Config{}, 0)
		w.evict("c2", 2*time.Minute)
		w.evict("c3", 2*time.Minute)
		w.again(20*time.Second, ids[0], 1)
		w.closed(time.Minute)
		for _, c := range w.Calls() {
			if line := strings.Join(c.Args, " "); (c.Name == "scancel" || strings.HasPrefix(line, "requeue")) && !strings.HasSuffix(line, " 1") {
				t.Errorf("%s %s: not of the leader", c.Name, line)
			}
		}
		if i := w.info(ids[0]); len(i.Signals) != 1 {
			t.Errorf("signals %v", i.Signals)
		}
	})
}

// TestASuspendedJob cannot take a signal: scancel would wait for 81 s.
func TestASuspendedJob(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		bubble(t, "c[1-4]", func(w *world) {
			id := w.begin(leaves(w, 1, 75))[0]
			begun := time.Now()
			w.rewrite = func(s *slurm.Snapshot) {
				switch j := s.Jobs[id]; {
				case j.State == "RUNNING" && j.Restarts == 0 && !(resumed && time.Since(begun) > 40*time.Second):
					j.State = "SUSPENDED"
					s.Jobs[id] = j
				case j.Restarts == 1 && !resumed: // slurmctld holds what was suspended; the simulation starts it
					j.State, j.Nodes, j.Reason = "PENDING", "", "JobHeldAdmin"
					s.Jobs[id] = j
				}
			}
			w.start(ft.Config{}, 0)
			w.evict("c1", 2*time.Minute)
			w.until(118*time.Second, "it is requeued before the deadline", func() bool { return w.info(id).Restarts == 1 })
			want := 0
			if resumed {
				want = 1
			}
			if i := w.info(id); len(i.Signals) != want || w.Count("scancel") != want {
				t.Errorf("resumed %t: signals %v", resumed, i.Signals)
			}
			w.closed(time.Minute)
			if i := w.info(id); !resumed && !strings.Contains(i.AdminComment, "scontrol release 1") {
				t.Errorf("its user is not told that it is held: %q", i.AdminComment)
			}
		})
	}
}

// TestAStaleNoticeLeavesTheNextInstanceAlone: the node has got another one
// while the guard was away.
func TestAStaleNoticeLeavesTheNextInstanceAlone(t *testing.T) {
	bubble(t, "c[1-2]", func(w *world) {
		id := w.begin(stays(w))[0]
		n := cloud.Notice{Instance: w.instance("c1"), Kind: cloud.SpotInterruption, Deadline: time.Now().Add(time.Minute), Received: time.Now()}
		w.notices[noticeKey{n.Instance, n.Kind}] = ft.Notice{Notice: n, Provider: "fake", Node: "c1", Stage: ft.Draining}
		w.mu.Lock()
		delete(w.nodes, n.Instance)
		w.nodes["i-c1-2"] = "c1"
		w.mu.Unlock()
		w.start(ft.Config{}, 0)
		w.closed(time.Minute)
		time.Sleep(time.Minute)
		if i := w.info(id); i.State != "RUNNING" || len(i.Signals) > 0 || w.Node("c1") != "ALLOCATED+CLOUD" {
			t.Errorf("node %s, job %+v", w.Node("c1"), i)
		}
	})
}

// shortCalls is a source whose calls have a context of their own.
type shortCalls struct{ cloud.NoticeSource }

func (s shortCalls) Notices(ctx context.Context, handle func(context.Context, cloud.Notice) error) error {
	return s.NoticeSource.Notices(ctx, func(ctx context.Context, n cloud.Notice) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return handle(ctx, n)
	})
}

func TestASourcesContextEndsItsCallOnly(t *testing.T) {
	bubble(t, "c[1-4]", func(w *world) {
		id := w.begin(leaves(w, 1, 75))[0]
		w.source = shortCalls{w.fake}
		w.start(ft.Config{}, 0)
		w.evict("c1", 2*time.Minute)
		w.again(20*time.Second, id, 1)
		w.closed(time.Minute)
	})
}
