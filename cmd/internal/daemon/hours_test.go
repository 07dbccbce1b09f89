package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// hourly is a burstd with a journal and a provider that bills by the hour.
type hourly struct {
	*testing.T
	*Daemon
	path string
	left bool // the provider has left burst.toml
}

func newHourly(t *testing.T) *hourly {
	h := &hourly{T: t, path: newJournal(t)}
	h.restart()
	return h
}

// restart has a new burstd on the same journal.
func (h *hourly) restart() {
	h.Helper()
	if h.Daemon != nil {
		if err := h.store.Close(); err != nil {
			h.Fatal(err)
		}
	}
	st, err := store.Open(h.Context(), h.path)
	if err != nil {
		h.Fatal(err)
	}
	d := &Daemon{store: st, log: slog.New(slog.DiscardHandler), cfg: &config.Config{Providers: []config.Provider{{Name: "lon", Kind: "vultr"}}}}
	if h.left {
		d.cfg.Providers = nil
	}
	lon := &plans{usd: map[string]float64{"vhp": 0.143, "vcg-a100": 2, "real": 0.132}, month: map[string]float64{"vhp": 672 * 0.143, "vcg-a100": 1460, "real": 96}}
	d.prices = newPrices(d.cfg.Providers, map[string]cloud.Provider{"lon": lon}, d.log)
	if err := d.recall(h.Context()); err != nil {
		h.Fatal(err)
	}
	d.meters = newMeters(nil, func() *slurm.Snapshot { return nil })
	h.Daemon = d
}

// plans is a cloud that says the prices of its plans, on demand.
type plans struct {
	cloud.Provider
	usd, month map[string]float64
	err        error
}

func (p *plans) Prices(_ context.Context, offerings []cloud.Offering) (all []cloud.OfferingPrice, err error) {
	for _, o := range offerings {
		if p.usd[o.Type] > 0 {
			all = append(all, cloud.OfferingPrice{Offering: o, USDPerHour: p.usd[o.Type], USDPerMonth: p.month[o.Type], Date: time.Now(), Source: "plans-api"})
		}
	}
	return all, p.err
}

// put writes the instance to the journal.
func (h *hourly) put(i power.Instance) {
	h.Helper()
	if err := h.store.CommitPower(h.Context(), power.Change{Instances: []power.Instance{i}}); err != nil {
		h.Fatal(err)
	}
}

// pass lets time pass, with a round of the ledger at every step.
func (h *hourly) pass(d, step time.Duration) {
	h.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(step, time.Until(end)))
		if err := h.book(h.Context(), &slurm.Snapshot{Taken: time.Now()}); err != nil {
			h.Fatal(err)
		}
	}
}

// monthly is how often the ledger's round comes in a test's long month: step, but for -short.
func monthly(step time.Duration) time.Duration {
	if testing.Short() {
		return 11 * time.Hour
	}
	return step
}

// costs checks what all instances have cost by now, however it is summed up.
func (h *hourly) costs(what string, usd float64) {
	h.Helper()
	for _, by := range api.UsageKeys {
		all, err := h.Usage(h.Context(), api.UsageQuery{By: by, UID: -1})
		if err != nil {
			h.Fatal(err)
		}
		sum := 0.0
		for _, u := range all {
			if u.USD == nil || u.UnpricedSeconds > 0 {
				h.Fatalf("%s: by %s: the price of %q is not known", what, by, u.Key)
			}
			sum += *u.USD
		}
		if got, want := fmt.Sprintf("%.4f", sum), fmt.Sprintf("%.4f", usd); got != want {
			h.Errorf("%s: by %s it costs %s, want %s", what, by, got, want)
		}
	}
}

func ofPlan(id, plan string, launched time.Time) power.Instance {
	return power.Instance{Provider: "lon", Assigned: "c-" + id, Instance: cloud.Instance{ID: id, Pool: "vhp", State: cloud.Running,
		Offering: cloud.Offering{Type: plan, Market: cloud.OnDemand}, Launched: launched}}
}

func gone(i power.Instance) power.Instance {
	i.State, i.Ended, i.Gone, i.Doomed = cloud.Terminated, time.Now(), time.Now(), "suspended"
	return i
}

// TestHoursAreBooked: burst cost agrees with Vultr's rule at any moment.
func TestHoursAreBooked(t *testing.T) {
	t.Parallel()
	const usd = 0.143
	for _, tt := range []struct {
		name  string
		begin string // 2000-01-01 00:00 is the bubble's
		run   func(h *hourly, i power.Instance)
	}{
		{"its provider leaves burst.toml", "", func(h *hourly, i power.Instance) {
			h.pass(70*time.Minute, 30*time.Second)
			h.left = true
			h.restart()
			h.costs("a second hour has begun", 2*usd)
			h.pass(10*time.Minute, 30*time.Second)
			h.put(gone(i))
			h.pass(time.Minute, 30*time.Second)
			h.costs("it is gone", 2*usd)
		}},
		{"gone at once, by a clock that is behind the cloud's", "", func(h *hourly, i power.Instance) {
			i.Launched = time.Now().Add(time.Minute)
			h.put(i)
			last := gone(i)
			last.Guessed = true
			h.put(last)
			h.pass(2*time.Minute, 30*time.Second)
			h.costs("booked", usd)
		}},
		{"while it runs", "", func(h *hourly, i power.Instance) {
			h.costs("just launched, no round of the ledger", usd)
			h.pass(10*time.Minute, 30*time.Second)
			h.costs("10 min", usd)
			h.pass(50*time.Minute, 30*time.Second)
			h.costs("an hour", usd)
			time.Sleep(time.Second)
			h.costs("a second more, before the next round", 2*usd)
			h.pass(3*time.Hour, 5*time.Minute)
			h.costs("three hours more", 5*usd)
		}},
		{"ended within its first minute", "", func(h *hourly, i power.Instance) {
			time.Sleep(40 * time.Second)
			h.put(gone(i))
			h.costs("not booked yet", usd)
			h.pass(time.Second, time.Second)
			h.costs("booked", usd)
			h.pass(3*time.Hour, time.Minute)
			h.costs("hours later", usd)
		}},
		{"ended shortly before its hour, confirmed after it", "", func(h *hourly, i power.Instance) {
			h.pass(58*time.Minute, 30*time.Second)
			last := gone(i)
			h.pass(4*time.Minute, 30*time.Second)
			last.Gone = time.Now()
			h.put(last)
			h.pass(time.Minute, 30*time.Second)
			h.costs("booked", usd)
		}},
		{"over a restart of burstd", "", func(h *hourly, i power.Instance) {
			h.pass(20*time.Minute, 30*time.Second)
			h.restart()
			h.pass(30*time.Second, 30*time.Second) // it asks for the price again
			h.costs("restarted", usd)
			time.Sleep(5 * time.Hour)
			h.restart()
			h.costs("away for five hours", 6*usd)
			h.pass(time.Minute, 30*time.Second)
			h.costs("and booked", 6*usd)
			h.put(gone(i))
			h.restart()
			h.pass(time.Second, time.Second)
			h.costs("ended", 6*usd)
		}},
		{"over a month's end", "2000-01-31 22:30", func(h *hourly, i power.Instance) {
			h.pass(2*time.Hour+10*time.Minute, time.Minute)
			h.costs("2 h 10 min", 3*usd)
			h.put(gone(i))
			h.pass(time.Second, time.Second)
			h.costs("ended", 3*usd)
		}},
		{"for a month, and on", "2000-01-01 00:30", func(h *hourly, i power.Instance) {
			h.pass(671*time.Hour, monthly(13*time.Minute))
			h.costs("671 hours", 671*usd)
			h.pass(10*time.Hour, 7*time.Minute)
			h.costs("the month is paid", 672*usd)
			h.restart()
			h.pass(50*time.Hour, 7*time.Minute)
			h.costs("and stays so, to 731 hours", 672*usd)
			h.pass(13*time.Hour, 7*time.Minute) // 00:30 of February 1st
			h.costs("the last hour of January, which ends in February", 672*usd)
			h.pass(10*time.Minute, time.Minute)
			h.costs("February's first", 673*usd)
			h.pass(50*time.Minute+time.Second, time.Minute)
			h.costs("February's second", 674*usd)
			h.put(gone(i))
			h.pass(time.Second, time.Second)
			h.costs("ended", 674*usd)
		}},
		{"a month booked at once", "2000-01-01 00:00", func(h *hourly, i power.Instance) {
			time.Sleep(31 * 24 * time.Hour)
			h.put(gone(i))
			h.pass(time.Second, time.Second)
			h.costs("ended", 672*usd)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHourly(t)
				defer func() { h.store.Close() }()
				if tt.begin != "" {
					at, err := time.Parse("2006-01-02 15:04", tt.begin)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Until(at))
				}
				i := ofPlan("i-1", "vhp", time.Now())
				h.put(i)
				h.prices.learn(t.Context(), []power.Instance{i})
				tt.run(h, i)
			})
		})
	}
}

// TestMonthsPrice: an instance that has been up for all of a month has cost what its plan costs a month, as Vultr's
// list says both prices, also over a restart.
func TestMonthsPrice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHourly(t)
		defer func() { h.store.Close() }()
		i := ofPlan("i-1", "real", time.Now()) // January 1st
		h.put(i)
		h.pass(726*time.Hour, monthly(time.Hour))
		h.costs("726 hours", 726*0.132)
		h.pass(5*time.Hour, time.Hour)
		h.costs("the month is paid", 727*0.132)
		h.restart()
		h.pass(13*time.Hour, time.Hour)
		h.costs("and stays so", 727*0.132)
		if usd := 727 * 0.132; usd < 96-0.07 || usd > 96+0.07 {
			t.Errorf("a month costs %g USD, and the plan 96", usd)
		}
		h.pass(time.Minute, time.Minute)
		h.costs("February's first", 728*0.132)
	})
}

// TestMonthsMostOverARestart: while the cloud does not say its prices after a restart, a month has the
// most that it had, be it less or more than 730 hours.
func TestMonthsMostOverARestart(t *testing.T) {
	t.Parallel()
	for plan, most := range map[string]float64{"real": 727, "small": 741} {
		synctest.Test(t, func(t *testing.T) {
			h := newHourly(t)
			defer func() { h.store.Close() }()
			cloudSays := &plans{usd: map[string]float64{"real": 0.132, "small": 0.027}, month: map[string]float64{"real": 96, "small": 20}}
			h.prices.pricers["lon"] = cloudSays
			h.put(ofPlan("i-1", plan, time.Now())) // January 1st
			h.pass(726*time.Hour, monthly(time.Hour))
			h.restart()
			h.prices.pricers["lon"] = &plans{err: errors.New("no answer")}
			h.pass(17*time.Hour, time.Hour)
			h.costs(plan+" without a word of the cloud", most*cloudSays.usd[plan])
			usage, err := h.Usage(t.Context(), api.UsageQuery{By: "pool", UID: -1})
			if err != nil || len(usage) != 1 || usage[0].UnpricedSeconds != 0 {
				t.Errorf("%+v, %v", usage, err)
			}
		})
	}
}

// TestOldPricesAreNoNewInstances: what was kept of a plan's price long ago is no new instance's, but has its month's most;
// and what a cloud no longer says of a month is kept no longer.
func TestOldPricesAreNoNewInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHourly(t)
		defer func() { h.store.Close() }()
		i := ofPlan("i-1", "vhp", time.Now())
		h.prices.learn(t.Context(), []power.Instance{i})
		for _, tt := range []struct {
			away time.Duration
			usd  float64
		}{{23 * time.Hour, 0.143}, {2 * time.Hour, 0}} {
			time.Sleep(tt.away)
			h.restart()
			h.prices.pricers["lon"] = &plans{err: errors.New("no answer")}
			h.prices.learn(t.Context(), []power.Instance{i})
			if usd := h.prices.price("lon", i.Offering).USDPerHour; usd != tt.usd {
				t.Errorf("after %s more a new instance costs %g, want %g", tt.away, usd, tt.usd)
			}
			if hour, month := h.prices.month("lon", i.Offering); hour != 0.143 || month != 672*0.143 {
				t.Errorf("after %s more a month has %g, by %g an hour", tt.away, month, hour)
			}
		}
		h.prices.pricers["lon"] = &plans{usd: map[string]float64{"vhp": 0.2}}
		time.Sleep(time.Hour)
		h.prices.learn(t.Context(), []power.Instance{i})
		if kept, err := h.store.Plans(t.Context()); err != nil || len(kept) > 0 || h.prices.price("lon", i.Offering).USDPerHour != 0.2 {
			t.Errorf("kept is %+v (%v)", kept, err)
		}
	})
}

// TestMonthPaidBefore: what is booked as paid by a most that has changed since stays so, and is counted on.
func TestMonthPaidBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHourly(t)
		defer func() { h.store.Close() }()
		i := ofPlan("i-1", "vhp", time.Now())
		h.put(i)
		h.pass(700*time.Hour, monthly(time.Hour))
		h.costs("672 hours are the most", 672*0.143)
		h.prices.pricers["lon"] = &plans{usd: map[string]float64{"vhp": 0.143}, month: map[string]float64{"vhp": 727 * 0.143}}
		h.pass(2*time.Hour, time.Hour) // in which it asks again
		begun := 702 - 700
		h.costs("and more of them now", float64(672+begun)*0.143)
		h.pass(42*time.Hour, monthly(time.Hour))
		h.costs("until they are 727", float64(672+727-700)*0.143)
	})
}

// TestAUserSeesNothingOfBegunHours: they are nobody's.
func TestAUserSeesNothingOfBegunHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHourly(t)
		defer func() { h.store.Close() }()
		i := ofPlan("i-1", "vhp", time.Now())
		h.put(i)
		h.pass(10*time.Minute, time.Minute)
		if all, err := h.Usage(t.Context(), api.UsageQuery{By: "job", UID: 1000}); err != nil || len(all) != 0 {
			t.Errorf("%+v, %v", all, err)
		}
		all, err := h.Usage(t.Context(), api.UsageQuery{By: "offering", UID: -1})
		if err != nil || len(all) != 1 || all[0].Key != "vhp/on-demand" || all[0].Instances != 1 || all[0].Seconds != 3600 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
