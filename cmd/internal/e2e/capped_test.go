package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// centASecond is what an instance of the sites with a budget costs, in USD an hour.
const centASecond = 36.0

// The times of those sites. A launch is judged by all of them.
const (
	cappedBoot    = time.Minute
	cappedSuspend = 5 * time.Second
	cappedEnd     = 3 * time.Second
	cappedKill    = 2 * time.Second // KillWait
)

// atMost is what docs/costs.md says that the launch of so many instances for a job of that time limit can
// cost, in USD: the boot, the limit, the idle time and the end, by the second. The least is what they
// still count when they are up.
func atMost(instances int, limit time.Duration) (usd, least float64) {
	cost := func(d time.Duration) float64 {
		return float64(instances) * price.PerSecond.Billed(d).Hours() * centASecond
	}
	return cost(cappedBoot + limit + cappedKill + cappedSuspend + cappedEnd), cost(limit + cappedKill + cappedSuspend + cappedEnd)
}

// cappedSite has the times and prices, and its day far from midnight.
func cappedSite(t *testing.T, o rig.Options, budget string) rig.Options {
	t.Helper()
	o.Prices = filepath.Join(t.TempDir(), "prices.csv")
	table := fmt.Sprintf("type,zone,market,usd_per_hour,date\nlocal.small,,spot,%g,2026-08-01\nlocal.small,,on-demand,%g,2026-08-01\n", centASecond, 2*centASecond)
	if err := os.WriteFile(o.Prices, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	o.CPUs, o.Gate, o.SlurmExtra = 1, true, quick+o.SlurmExtra
	o.ResumeTimeout, o.SuspendTime, o.SuspendTimeout = cappedBoot, cappedSuspend, cappedEnd
	o.ExtraToml += "[budget]\n" + noMidnight() + budget
	return o
}

// noMidnight has the day of a [budget] begin and end hours from now: a test that runs over a midnight would find that
// nothing is spent.
func noMidnight() string {
	if h := time.Now().UTC().Hour(); h < 4 || h >= 20 {
		return "time_zone = \"Etc/GMT+12\"\n"
	}
	return "time_zone = \"UTC\"\n"
}

// raise changes the cluster's cap of a day, as an admin does.
func (s *site) raise(from, to float64) {
	s.t.Helper()
	text, err := os.ReadFile(s.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	was, now := dayCap(from), dayCap(to)
	if strings.Count(string(text), was) != 1 {
		s.t.Fatalf("%q is not once in burst.toml", was)
	}
	if err := os.WriteFile(s.Config, []byte(strings.Replace(string(text), was, now, 1)), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StopBurstd(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StartBurstd(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func dayCap(usd float64) string { return fmt.Sprintf("day = %.2f # the cluster's\n", usd) }

// round is an amount as burst.toml has it, in whole cents.
func round(usd float64) float64 { return math.Round(100*usd) / 100 }

// capWatch looks all the time whether a cap is kept: by the provider's own records, and by burstd's word.
type capWatch struct {
	s    *site
	stop chan struct{}
	done chan struct{}

	mu        sync.Mutex
	cap       float64 // the cluster's, in USD
	launches  int     // that may have been made by now
	looks     int     // at the provider
	answers   int     // of burstd
	faults    []string
	most, own float64 // that was ever spent or committed, and that the provider charged
}

func (s *site) watchCap(usd float64, launches int) *capWatch {
	w := &capWatch{s: s, cap: usd, launches: launches, stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	s.t.Cleanup(w.end)
	return w
}

func (w *capWatch) allow(usd float64, launches int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cap, w.launches = usd, launches
}

func (w *capWatch) run() {
	defer close(w.done)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *capWatch) look() {
	all, err := w.s.Control.List()
	rows, noAnswer := w.s.API.Budget(w.s.t.Context(), -1) // it may be killed, or be about to start
	now := time.Now()
	charged := 0.0
	for _, m := range all {
		end := now
		if !m.Ended.IsZero() {
			end = m.Ended
		}
		charged += price.PerSecond.Cost(centASecond, m.Launched, end)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.own = max(w.own, charged)
	fault := func(bad bool, format string, args ...any) {
		if bad && len(w.faults) < 20 {
			w.faults = append(w.faults, now.Format(time.TimeOnly)+": "+fmt.Sprintf(format, args...))
		}
	}
	fault(err != nil, "the provider: %v", err)
	fault(len(all) > w.launches, "%d instances were launched, and the cap has room for %d", len(all), w.launches)
	fault(charged > w.cap, "the provider charges %.2f USD, and the cap is %.2f", charged, w.cap)
	if noAnswer != nil {
		return
	}
	w.answers++
	for _, r := range rows {
		fault(r.Spent+r.Committed > r.Cap+1e-6, "%s %s: %.4f USD are spent and %.4f committed of %.2f", r.Of, r.Name, r.Spent, r.Committed, r.Cap)
		fault(r.UnpricedHours > 0, "%s %s: %g hours have no price", r.Of, r.Name, r.UnpricedHours)
		if r.Of == "cluster" {
			w.most = max(w.most, r.Spent+r.Committed)
		}
	}
}

// end may be called again.
func (w *capWatch) end() {
	select {
	case <-w.stop:
		return
	default:
		close(w.stop)
		<-w.done
	}
	w.s.t.Logf("%d looks at the provider, %d answers of burstd: at most %.2f USD were spent or committed, and %.2f charged, of %.2f", w.looks, w.answers, w.most, w.own, w.cap)
	for _, f := range w.faults {
		w.s.t.Error(f)
	}
	if w.answers == 0 {
		w.s.t.Error("burstd has never said how the budget stands")
	}
}

// closed waits until nothing of the cloud is left, and the ledger has what the provider charges for all
// of it. So many instances were launched, each node's after the one before had ended.
func (s *site) closed(launches int) {
	s.t.Helper()
	s.wait(60*time.Second, "no instance lives, and all nodes are off", func() bool { return s.live() == 0 && s.off() == s.nodes() })
	s.wait(30*time.Second, "the journal is closed", func() bool {
		st, err := s.API.Status(s.t.Context())
		return err == nil && st.Orders == 0 && st.Instances == 0 && len(st.Nodes) == 0
	})
	s.once()
	all, want := s.machines(), 0.0
	for _, m := range all {
		want += price.PerSecond.Cost(centASecond, m.Launched, m.Ended)
	}
	if len(all) != launches {
		s.t.Errorf("%d instances were launched, want %d", len(all), launches)
	}
	var day []api.BudgetRow
	s.wait(30*time.Second, "the ledger has what the provider charges", func() bool {
		var err error
		day, err = s.API.Budget(s.t.Context(), -1)
		return err == nil && len(day) > 0 && day[0].Of == "cluster" && day[0].Committed == 0 && math.Abs(day[0].Spent-want) < 0.005
	})
	s.t.Logf("%d instances, %.2f USD", len(all), want)
	for after := int64(0); ; {
		events, err := s.API.Events(s.t.Context(), after, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			if after = e.Seq; e.Kind == "budget-leave" { // the cap was never exceeded
				s.t.Errorf("%s: node %s: %s", e.Time.Local().Format(time.TimeOnly), e.Node, e.Text)
			}
		}
	}
}
