package paidhour

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
)

var launched = time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)

// fourWeeks is an increment with a most that is as long as the shortest month.
var fourWeeks = price.PerHour.UpTo(1, 672)

func TestDue(t *testing.T) {
	for _, c := range []struct {
		name  string
		age   time.Duration
		unit  time.Duration
		due   bool
		until time.Duration // after the launch
	}{
		{"just launched", 0, time.Hour, false, time.Hour},
		{"in the middle", 30 * time.Minute, time.Hour, false, time.Hour},
		{"shortly before", 56*time.Minute - 1, time.Hour, false, time.Hour},
		{"from then on", 56 * time.Minute, time.Hour, true, time.Hour},
		{"to here", 59 * time.Minute, time.Hour, true, time.Hour},
		{"too late", 59*time.Minute + 1, time.Hour, false, time.Hour},
		{"the next hour", time.Hour, time.Hour, false, 2 * time.Hour},
		{"its end", 118 * time.Minute, time.Hour, true, 2 * time.Hour},
		{"a week later", 168*time.Hour + 57*time.Minute, time.Hour, true, 169 * time.Hour},
		{"by the second", 57 * time.Minute, time.Second, false, 57*time.Minute + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, now := Paid{launched, price.Increment{Unit: c.unit}}, launched.Add(c.age)
			if p.Due(now) != c.due {
				t.Errorf("due is %v", !c.due)
			}
			if got := p.Until(now).Sub(launched); got != c.until {
				t.Errorf("paid until %s, want %s", got, c.until)
			}
		})
	}
	if (Paid{time.Time{}, fourWeeks}).Due(launched) || (Paid{launched.Add(time.Hour), fourWeeks}).Due(launched.Add(57*time.Minute)) {
		t.Error("due without a launch, or before it")
	}
}

// An idle node has, in each hour, a time that is long enough for burstd to look, and its
// instance then has at least Last to end in.
func TestDueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Paid{launched, price.Increment{Unit: time.Hour}}
		hour := launched.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "hour")) * time.Hour)
		looks, every := 0, time.Duration(rapid.IntRange(1, 60).Draw(t, "every"))*time.Second
		for at := hour.Add(time.Duration(rapid.Int64Range(0, int64(every)-1).Draw(t, "first"))); at.Before(hour.Add(time.Hour)); at = at.Add(every) {
			if p.Due(at) {
				looks++
				if left := hour.Add(time.Hour).Sub(at); left < Last || left > Lead {
					t.Fatalf("due %s before the end", left)
				}
			}
		}
		if looks < 2 {
			t.Fatalf("looked at every %s it is due %d times", every, looks)
		}
	})
}

// TestFree: the hours after the most of a month are as good as paid for, up to the first of
// the next month.
func TestFree(t *testing.T) {
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 1, day, hour, minute, 0, 0, time.UTC) }
	for _, c := range []struct {
		name          string
		launched, now time.Time
		by            price.Increment
		until         time.Time
		due           bool
	}{
		{"before the most", at(1, 0, 0), at(28, 22, 57), fourWeeks, at(28, 23, 0), true},
		{"the last hour that costs", at(1, 0, 0), at(28, 23, 57), fourWeeks, at(32, 0, 0), false},
		{"a free one", at(1, 0, 0), at(30, 12, 57), fourWeeks, at(32, 0, 0), false},
		{"the last free one", at(1, 0, 0), at(31, 23, 57), fourWeeks, at(32, 0, 0), true},
		{"which may reach into the next month", at(1, 0, 30), at(31, 23, 57), fourWeeks, at(32, 0, 30), false},
		{"and be its end", at(1, 0, 30), at(32, 0, 27), fourWeeks, at(32, 0, 30), true},
		{"the next month", at(1, 0, 0), at(32, 0, 57), fourWeeks, at(32, 1, 0), true},
		{"another plan has more of them", at(1, 0, 0), at(30, 8, 57), price.PerHour, at(30, 9, 0), true},
		{"and then it has", at(1, 0, 0), at(31, 9, 57), price.PerHour, at(32, 0, 0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Paid{c.launched, c.by}
			if got := p.Until(c.now); !got.Equal(c.until) || p.Due(c.now) != c.due {
				t.Errorf("until %s, due %v; want %s, %v", got, p.Due(c.now), c.until, c.due)
			}
		})
	}
}

// What Until says is true of what is charged: until then not more, and from then on more.
func TestUntilProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Paid{launched, rapid.SampledFrom([]price.Increment{fourWeeks, price.PerHour}).Draw(t, "by")}
		now := launched.Add(time.Duration(rapid.Int64Range(0, 100*86400).Draw(t, "age")) * time.Second)
		charged := func(at time.Time) time.Duration { return p.By.Charged(launched, at) }
		if end := p.Until(now); !end.After(now) || charged(end) != charged(now.Add(1)) || charged(end.Add(1)) <= charged(end) {
			t.Fatalf("at %s: until %s, charged %s, %s then, and %s after", now, end, charged(now.Add(1)), charged(end), charged(end.Add(1)))
		}
	})
}

func TestIdle(t *testing.T) {
	now := launched.Add(time.Hour)
	good := slurm.Node{Name: "c1", State: slurm.NodeState{Base: "IDLE", Flags: []string{"CLOUD"}}, LastBusy: now.Add(-time.Minute), Started: launched}
	if !Idle(good, now) {
		t.Error("an idle node is not")
	}
	for name, change := range map[string]func(*slurm.Node){
		"a job":                    func(n *slurm.Node) { n.State.Base, n.AllocCPUs = "MIXED", 1 },
		"all of it":                func(n *slurm.Node) { n.State.Base = "ALLOCATED" },
		"a job ends":               func(n *slurm.Node) { n.State.Flags = []string{"CLOUD", slurm.Completing} },
		"a job was there just now": func(n *slurm.Node) { n.LastBusy = now.Add(-29 * time.Second) },
		"it has come up just now":  func(n *slurm.Node) { n.Started = now.Add(-29 * time.Second) },
		"planned":                  func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, "PLANNED") },
		"drained":                  func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, slurm.Drain) },
		"reserved":                 func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, "RESERVED") },
		"in maintenance":           func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, "MAINTENANCE") },
		"down":                     func(n *slurm.Node) { n.State.Base = "DOWN" },
		"it boots":                 func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, slurm.PoweringUp) },
		"it goes":                  func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, slurm.PoweringDown) },
		"it is to go":              func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, slurm.PowerDown) },
		"it is gone":               func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, slurm.PoweredDown) },
		"it does not answer":       func(n *slurm.Node) { n.State.Flags = append(n.State.Flags, slurm.NotResponding) },
	} {
		t.Run(name, func(t *testing.T) {
			n := good
			change(&n)
			if Idle(n, now) {
				t.Errorf("%s is idle", n.State)
			}
		})
	}
}
