package agent

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
)

func spot(at time.Time) cloud.Notice {
	return cloud.Notice{Kind: cloud.SpotInterruption, Action: "terminate", Deadline: at}
}

func planned(id string, at time.Time) cloud.Notice {
	return cloud.Notice{Kind: cloud.Maintenance, Action: "system-reboot", Event: id, Deadline: at}
}

func off(n cloud.Notice) cloud.Notice {
	n.Cancelled = true
	return n
}

// inBubble runs a test on virtual time, with an agent that has begun.
func inBubble(t *testing.T, do func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		defer func() { w.stop() }()
		time.Sleep(5 * time.Second)
		do(w)
	})
}

// TestNotices: whatever is announced is with burstd within 3 s, once.
func TestNotices(t *testing.T) {
	inBubble(t, func(w *world) {
		end, work := secs(120), secs(86400)
		w.service.Spot("terminate", end)
		w.service.Rebalance(time.Now())
		w.service.Maintenance(imdstest.Planned("e1", "system-reboot", "active", work), imdstest.Planned("e2", "system-reboot", "active", work))
		time.Sleep(3 * time.Second)
		all := []cloud.Notice{spot(end), {Kind: cloud.Rebalance}, planned("e1", work), planned("e2", work)}
		w.want(all...)
		w.service.Rebalance(time.Now()) // said again: no news
		w.service.Expire()              // a token that is forgotten does not matter
		time.Sleep(time.Hour)
		w.want(all...)
	})
}

func TestChanges(t *testing.T) {
	inBubble(t, func(w *world) {
		first, earlier := secs(600), secs(60)
		w.service.Spot("terminate", first)
		time.Sleep(3 * time.Second)
		w.service.Spot("terminate", earlier)
		time.Sleep(3 * time.Second)
		w.want(spot(first), spot(earlier))
		w.service.Spot("", time.Time{}) // gone: EC2 takes nothing back
		time.Sleep(time.Minute)
		w.service.Spot("terminate", earlier) // there again
		time.Sleep(time.Minute)
		w.want(spot(first), spot(earlier))
	})
}

func TestMaintenanceEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*imdstest.Service, time.Time)
		off  bool
	}{
		{"canceled", func(s *imdstest.Service, at time.Time) {
			s.Maintenance(imdstest.Planned("e1", "system-reboot", "canceled", at))
		}, true},
		{"completed", func(s *imdstest.Service, at time.Time) {
			s.Maintenance(imdstest.Planned("e1", "system-reboot", "completed", at))
		}, true},
		{"gone", func(s *imdstest.Service, _ time.Time) { s.Maintenance() }, true},
		{"gone, others remain", func(s *imdstest.Service, _ time.Time) { s.Set(imdstest.MaintenancePath, "[]") }, true},
		{"canceled, then gone", func(s *imdstest.Service, at time.Time) {
			s.Maintenance(imdstest.Planned("e1", "system-reboot", "canceled", at))
			time.Sleep(time.Minute)
			s.Maintenance()
		}, true},
		{"not there for one look", func(s *imdstest.Service, at time.Time) {
			s.Maintenance()
			time.Sleep(1500 * time.Millisecond)
			s.Maintenance(imdstest.Planned("e1", "system-reboot", "active", at))
		}, false},
		{"cannot be read", func(s *imdstest.Service, _ time.Time) {
			s.Fail("/latest/meta-data/events", imdstest.Fault{Status: 500})
		}, false},
		{"no token", func(s *imdstest.Service, _ time.Time) {
			s.Expire()
			s.Fail("/latest/api/token", imdstest.Fault{Status: 404})
		}, false},
		{"rubbish", func(s *imdstest.Service, _ time.Time) { s.Set(imdstest.MaintenancePath, "<html>") }, false},
		{"rubbish beside", func(s *imdstest.Service, _ time.Time) { s.Set(imdstest.MaintenancePath, "[{}]") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				at := secs(86400)
				w.service.Maintenance(imdstest.Planned("e1", "system-reboot", "active", at))
				time.Sleep(3 * time.Second)
				w.want(planned("e1", at))
				tt.end(w.service, at)
				time.Sleep(10 * time.Minute)
				if tt.off {
					w.want(planned("e1", at), off(planned("e1", at)))
				} else {
					w.want(planned("e1", at))
				}
			})
		})
	}
}

// TestControllerAway: notices wait for as long as it takes, each is delivered
// once, in its last version, and the log is not filled.
func TestControllerAway(t *testing.T) {
	inBubble(t, func(w *world) {
		w.burstd.set(func(c *controller) { c.fail = down })
		end, work := secs(120), secs(86400)
		w.service.Spot("terminate", secs(600))
		w.service.Maintenance(imdstest.Planned("e1", "system-reboot", "active", work))
		time.Sleep(time.Minute)
		w.service.Spot("terminate", end)
		w.service.Maintenance()
		time.Sleep(9 * time.Minute)
		w.service.Spot("", time.Time{}) // it has been announced all the same
		time.Sleep(3 * time.Hour)
		w.want()
		if n := w.log.count("level=WARN"); n > 30 {
			w.Errorf("%d warnings in three hours", n)
		}
		w.burstd.set(func(c *controller) { c.fail = nil })
		time.Sleep(tryMax)
		w.want(spot(end), off(planned("e1", work)))
		time.Sleep(time.Hour)
		w.want(spot(end), off(planned("e1", work)))
	})
}

// TestAnswerIsLost: burstd is killed between the journal and its answer. The
// notice is sent again; burstd knows it by its key.
func TestAnswerIsLost(t *testing.T) {
	inBubble(t, func(w *world) {
		w.burstd.set(func(c *controller) {
			c.after = func(*http.Response) (*http.Response, error) { return nil, errDown }
		})
		end := secs(120)
		w.service.Spot("terminate", end)
		time.Sleep(3 * time.Second)
		w.burstd.set(func(c *controller) { c.after = nil })
		time.Sleep(time.Hour)
		got, _ := w.burstd.heard()
		if len(got) < 2 || len(got) > 6 {
			w.Fatalf("%d notices", len(got))
		}
		for _, n := range got {
			if n != got[0] {
				w.Errorf("sent again, the notice is %+v, not %+v", n, got[0])
			}
		}
	})
}

// TestOneDoesNotWaitForAnother: neither for a topic that hangs, nor for a
// notice that burstd does not answer, nor for beats.
func TestOneDoesNotWaitForAnother(t *testing.T) {
	inBubble(t, func(w *world) {
		hang := func(r *http.Request, _ []byte) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		w.burstd.set(func(c *controller) {
			c.fail = func(r *http.Request, body []byte) (*http.Response, error) {
				if resp, err := only("rebalance", hang)(r, body); resp != nil || err != nil {
					return resp, err
				}
				return only("/beat", hang)(r, body)
			}
		})
		w.service.Fail("/latest/meta-data/events/maintenance", imdstest.Fault{Hang: true})
		w.service.Rebalance(time.Now())
		time.Sleep(10 * time.Minute)
		end := secs(120)
		w.service.Spot("terminate", end)
		time.Sleep(3 * time.Second)
		w.want(spot(end))
	})
}

// TestServiceAway: beats go on, the log stays readable, and notices come when
// the service is back.
func TestServiceAway(t *testing.T) {
	for _, f := range []imdstest.Fault{{Status: 500}, {Status: 401}, {Hang: true}, {Cut: true}, {Status: 200, Body: "<html>"}} {
		inBubble(t, func(w *world) {
			w.service.Fail("/latest", f)
			puts, gets, _ := w.service.Count()
			time.Sleep(time.Hour)
			if n := len(w.burstd.beaten()); n < 175 {
				w.Errorf("%+v: %d beats in an hour", f, n)
			}
			if n := w.log.count("level=WARN"); n > 60 {
				w.Errorf("%+v: %d warnings in an hour", f, n)
			}
			morePuts, moreGets, _ := w.service.Count()
			if n := morePuts - puts + moreGets - gets; n > 3*4*3600/7 {
				w.Errorf("%+v: %d requests in an hour", f, n)
			}
			w.service.Fail("/latest", imdstest.Fault{})
			end := secs(120)
			w.service.Spot("terminate", end)
			time.Sleep(pollMost + 3*time.Second)
			w.want(spot(end))
		})
	}
}

// TestNotOnEC2: nothing is given up; the boot may not have come so far.
func TestNotOnEC2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.Watchdog = time.Minute
		w.munge.set(func(m *minted) { m.away = true })
		w.service.Fail("/latest", imdstest.Fault{Status: 404})
		w.run()
		time.Sleep(2 * time.Hour)
		if n := w.log.count("level=WARN"); n > 10 || w.log.count("is this an EC2 instance?") == 0 {
			t.Errorf("%d warnings in two hours:\n%s", n, w.log.text.String())
		}
		w.service.Fail("/latest", imdstest.Fault{})
		time.Sleep(time.Minute)
		if w.told("READY=1") > 0 {
			t.Error("it is ready without munge")
		}
		w.munge.set(func(m *minted) { m.away = false })
		time.Sleep(time.Minute)
		if w.told("READY=1") != 1 || w.told("WATCHDOG=1") == 0 {
			t.Errorf("systemd was told %q", w.states)
		}
		w.stop()
		if w.told("STOPPING=1") != 1 {
			t.Errorf("systemd was told %q", w.states)
		}
	})
}

// TestWatchdog: an agent of which one watch does not turn is restarted.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := newAgent(w.config)
		a.Watchdog = time.Minute
		if !a.turns() {
			t.Error("it has just begun")
		}
		time.Sleep(time.Hour)
		for i := range a.turned {
			if a.turns() {
				t.Errorf("watch %d does not turn", i)
			}
			a.turned[i].Store(int64(time.Since(a.born)))
		}
		if !a.turns() {
			t.Error("all watches turn")
		}
	})
}
