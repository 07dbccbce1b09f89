package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	limits = Limits{SlurmdRestarts: 3, SlurmdWindow: 10 * time.Minute, SpoolFull: 95, AgentSilent: time.Minute}
)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func TestRestarts(t *testing.T) {
	up := ago(30 * time.Minute)
	for _, tt := range []struct {
		name   string
		starts []time.Duration // ago
		up     time.Time
		want   int
	}{
		{"none are known", nil, up, 0},
		{"the boot's", []time.Duration{31 * time.Minute}, up, 0},
		{"within the window", []time.Duration{31 * time.Minute, 9 * time.Minute, 5 * time.Minute, time.Minute}, up, 3},
		{"one is too long ago", []time.Duration{31 * time.Minute, 11 * time.Minute, 5 * time.Minute, time.Minute}, up, 2},
		{"the boot's is forgotten by now", []time.Duration{9 * time.Minute, 5 * time.Minute, time.Minute}, up, 3},
		{"in any order, and twice", []time.Duration{time.Minute, 9 * time.Minute, 9 * time.Minute}, up, 2},
		{"the boot had many, before slurmctld answered", []time.Duration{5 * time.Minute, 4 * time.Minute, 3 * time.Minute, 2 * time.Minute}, ago(time.Minute), 0},
		{"a node's clock that is ahead", []time.Duration{4*time.Minute + 55*time.Second}, ago(5 * time.Minute), 0},
		{"a restart soon after", []time.Duration{5*time.Minute + 2*time.Second, 4*time.Minute + 55*time.Second}, ago(5 * time.Minute), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var starts []time.Time
			for _, d := range tt.starts {
				starts = append(starts, ago(d))
			}
			if got := restarts(starts, tt.up, ago(10*time.Minute)); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// site is n nodes of provider east, all heard 5 s ago, and clear for an hour.
func site(n int) view {
	v := view{now: noon, heard: map[string]heard{}, clear: map[string]time.Time{"east": ago(time.Hour)}}
	for i := range n {
		id := fmt.Sprintf("i-%02d", i)
		v.nodes = append(v.nodes, Node{Name: fmt.Sprintf("c%02d", i), Pool: "p", Provider: "east", Instance: id, Since: ago(time.Hour)})
		v.heard[id] = heard{Beat: Beat{Instance: id, At: ago(5 * time.Second), Spool: 10}}
	}
	return v
}

// set makes the last words of the first nodes so old.
func (v view) quiet(n int, d time.Duration) view {
	for _, node := range v.nodes[:n] {
		h := v.heard[node.Instance]
		h.At = v.now.Add(-d)
		v.heard[node.Instance] = h
	}
	return v
}

// clear has the view's providers clear as they are, for long if they are.
func clear(v view) view {
	v.clear = limits.clearSince(v, v.clear)
	return v
}

func TestJudge(t *testing.T) {
	first := func(v view, spoil func(*heard)) view {
		h := v.heard["i-00"]
		spoil(&h)
		v.heard["i-00"] = h
		return v
	}
	starts := func(h *heard) { h.Started = []time.Time{ago(3 * time.Minute), ago(2 * time.Minute), ago(time.Minute)} }
	for _, tt := range []struct {
		name   string
		limits Limits
		view   view
		want   []string // node: why
	}{
		{"all are well", limits, site(3), nil},
		{"restarts", limits, first(site(3), starts), []string{"c00: slurmd has restarted 3 times within 10m0s"}},
		{"restarts, and no limit", Limits{SpoolFull: 95, AgentSilent: time.Minute}, first(site(3), starts), nil},
		{"slurmd is down for a minute", limits, first(site(3), func(h *heard) { h.Stopped, h.stopped = true, h.At.Add(-time.Minute) }), []string{"c00: slurmd does not run"}},
		{"slurmd is down for seconds", limits, first(site(3), func(h *heard) { h.Stopped, h.stopped = true, h.At.Add(-30*time.Second) }), nil},
		{"slurmd was down until the node registered", limits, func() view {
			v := first(site(3), func(h *heard) { h.Stopped, h.stopped = true, h.At.Add(-5*time.Minute) })
			v.nodes[0].Since = ago(2 * time.Second) // its next beat will say so
			return v
		}(), nil},
		{"slurmd went down as soon as the node had registered", limits, func() view {
			v := first(site(3), func(h *heard) { h.Stopped, h.stopped = true, h.At.Add(-5*time.Minute) })
			v.nodes[0].Since = ago(66 * time.Second)
			return v
		}(), []string{"c00: slurmd does not run"}},
		{"the spool is full", limits, first(site(3), func(h *heard) { h.full = 2 }), []string{"c00: the disk of slurmd's spool is over 95 % full"}},
		{"the spool is full once", limits, first(site(3), func(h *heard) { h.full = 1 }), nil},
		{"one is silent", limits, site(3).quiet(1, 61*time.Second), []string{"c00: its burst-agent is silent for 1m0s, and others are not"}},
		{"one is silent, and no limit", Limits{SlurmdRestarts: 3}, site(3).quiet(1, time.Hour), nil},
		{"one is late", limits, site(3).quiet(1, 59*time.Second), nil},
		{"a minority is silent", limits, site(5).quiet(2, 61*time.Second), []string{"c00: its burst-agent is silent for 1m0s, and others are not", "c01: its burst-agent is silent for 1m0s, and others are not"}},
		{"half are silent: the network", limits, clear(site(4).quiet(2, 61*time.Second)), nil},
		{"of two, one", limits, clear(site(2).quiet(1, 61*time.Second)), []string{"c00: its burst-agent is silent for 1m0s, and others are not"}},
		{"all are silent: the network", limits, site(4).quiet(4, 10*time.Minute), nil},
		{"a node without others", limits, site(1).quiet(1, time.Hour), nil},
		{"it never spoke", limits, func() view { v := site(3); delete(v.heard, "i-00"); return v }(), nil},
		{"we listen for 30 s", limits, func() view { v := site(3).quiet(1, 61*time.Second); v.clear["east"] = ago(30 * time.Second); return v }(), nil},
		{"the VPN is back for 30 s, most are heard again", limits, func() view { v := site(5).quiet(1, 5*time.Minute); v.clear["east"] = ago(30 * time.Second); return v }(), nil},
		{"nothing is clear", limits, func() view { v := site(3).quiet(1, time.Hour); v.clear = nil; return v }(), nil},
		{"another provider's agents prove nothing", limits, func() view {
			v := site(9).quiet(1, time.Hour)
			v.nodes[0].Provider, v.clear["west"] = "west", ago(time.Hour)
			return v
		}(), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, s := range tt.limits.judge(tt.view) {
				got = append(got, s.Name+": "+s.why)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNext(t *testing.T) {
	var h heard
	for i, tt := range []struct {
		stopped bool
		spool   float64
		want    time.Duration // since slurmd has stopped
		full    int
	}{
		{false, 94.9, 0, 0}, {true, 95, 0, 1}, {true, 99, 20 * time.Second, 2}, {true, -1, 40 * time.Second, 0}, {false, 100, 0, 1}, {true, 100, 0, 2},
	} {
		at := noon.Add(time.Duration(i) * 20 * time.Second)
		h = h.next(Beat{At: at, Stopped: tt.stopped, Spool: tt.spool}, limits)
		if h.full != tt.full || h.stopped.IsZero() == tt.stopped || tt.stopped && at.Sub(h.stopped) != tt.want {
			t.Errorf("beat %d: %+v", i, h)
		}
	}
}

// TestAFlappingVPNDrainsNothing plays agents that beat as often as they are told
// over a link that goes away for any time, and judges as often as Run does.
func TestAFlappingVPNDrainsNothing(t *testing.T) {
	for _, limit := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		for down := 5 * time.Second; down < 10*time.Minute; down = down*5/4 + time.Second {
			l, v, clear := Limits{AgentSilent: limit}, site(10), map[string]time.Time(nil)
			begin := noon.Add(5 * time.Minute)
			for at := noon; at.Before(begin.Add(down + 5*time.Minute)); at = at.Add(time.Second) {
				up := at.Before(begin) || !at.Before(begin.Add(down))
				for i, n := range v.nodes {
					// What is lost is not sent again before the next is due, each at its own time.
					period := l.Interval() * time.Duration(4+i%2) / 4
					if after := at.Sub(noon)%period - time.Duration(i)*period/10; up && after >= 0 && after < time.Second {
						v.heard[n.Instance] = heard{Beat: Beat{Instance: n.Instance, At: at}}
					}
				}
				if v.now = at; at.Sub(noon)%pace != 0 {
					continue
				}
				clear = l.clearSince(v, clear)
				v.clear = clear
				if sick := l.judge(v); len(sick) > 0 {
					t.Fatalf("limit %s, link away for %s: at %s %+v", limit, down, at.Sub(begin), sick)
				}
			}
		}
	}
}
