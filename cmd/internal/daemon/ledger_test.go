package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func machine(id string, o cloud.Offering) power.Instance {
	return power.Instance{Provider: "here", Instance: cloud.Instance{ID: id, Pool: "p", Offering: o}}
}

// endsHour is the time, or the day's beginning if that was less than an hour ago: the hour that ends then is of one
// day, and its sum is one product.
func endsHour(at time.Time) time.Time {
	y, m, d := at.Local().Date()
	if midnight := time.Date(y, m, d, 0, 0, 0, 0, time.Local); at.Sub(midnight) < time.Hour {
		return midnight
	}
	return at
}

// TestTheLedgerIsBookedAfterAnAbsence: what ended before burstd was started is
// in the ledger, at its price where that is known.
func TestTheLedgerIsBookedAfterAnAbsence(t *testing.T) {
	s := newSite(t)
	st, err := store.Open(t.Context(), s.config.Endpoint.DB())
	if err != nil {
		t.Fatal(err)
	}
	s.write("prices.csv", "type,zone,market,usd_per_hour,date\nsmall,,on-demand,0.085,2026-08-01\n", 0o644)
	s.config.Providers[0].PriceTable = filepath.Join(s.dir, "prices.csv")
	launched := endsHour(time.Now().Add(-time.Hour)).Add(-time.Hour)
	known, unknown := machine("i-1", cloud.Offering{Type: "small", Market: cloud.OnDemand}), machine("i-2", cloud.Offering{Type: "odd", Market: cloud.Spot})
	for _, i := range []*power.Instance{&known, &unknown} {
		i.State, i.Launched, i.Ended, i.Gone = cloud.Terminated, launched, launched.Add(time.Hour), launched.Add(time.Hour)
	}
	unknown.Guessed = true
	unknown.Gone = unknown.Gone.Add(time.Minute) // when that was believed
	if err := st.CommitPower(t.Context(), power.Change{Instances: []power.Instance{known, unknown}}); err != nil {
		t.Fatal(err)
	}
	st.Close()
	r := s.start()
	var usage []api.Usage
	r.until("it is booked", func() bool {
		usage, err = r.Usage(t.Context(), api.UsageQuery{By: "offering"})
		return err == nil && len(usage) == 2
	})
	if u := usage[0]; u.Key != "small/on-demand" || u.Seconds != 3600 || u.USD == nil || *u.USD != 0.085 || u.UnpricedSeconds != 0 {
		t.Errorf("the one with a price: %+v", u)
	}
	if u := usage[1]; u.Key != "odd/spot" || u.Seconds != 3600 || u.USD != nil || u.UnpricedSeconds != 3600 {
		t.Errorf("the one without: %+v", u)
	}
	bills, err := r.Bills(t.Context(), time.Time{})
	if err != nil || len(bills) != 2 {
		t.Fatalf("%+v, %v", bills, err)
	}
	for _, b := range bills {
		if b.Guessed != (b.Instance == "i-2") || b.Differs || !b.Ended.Equal(known.Ended.Truncate(time.Microsecond)) {
			t.Errorf("%+v", b)
		}
	}
}

// TestAnAttemptIsBookedToItsEnd, though it is requeued between two rounds of the ledger.
func TestAnAttemptIsBookedToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t, slurmtest.Options{})
		defer p.stop()
		d := p.Daemon
		d.cfg, d.ended, d.prices = &config.Config{}, make(chan struct{}, 1), newPrices(nil, nil, d.log)
		d.meters = newMeters(nil, d.watcher.Latest)
		i := machine("i-1", cloud.Offering{Type: "small", Market: cloud.Spot})
		i.Assigned, i.State, i.Launched = "c1", cloud.Running, time.Now()
		if err := d.store.CommitPower(t.Context(), power.Change{Instances: []power.Instance{i}}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.watcher.Fresh(ctx, time.Now()); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		})
		wg.Go(func() {
			if err := d.keepLedger(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(3 * time.Second)
		p.Submit(slurmtest.Job{Requeue: true})
		time.Sleep(52 * time.Second) // the round at 30 s has it, that at 60 s does not
		first := d.watcher.Latest().Jobs[1]
		if first.Nodes != "c1" || first.State != "RUNNING" {
			t.Fatalf("%+v", first)
		}
		if _, _, err := p.Controller.Run(ctx, "scontrol", "requeue", "1"); err != nil {
			t.Fatal(err)
		}
		want := time.Since(first.Start).Seconds()
		time.Sleep(50 * time.Second)
		stop()
		wg.Wait()
		sums, err := d.Usage(t.Context(), api.UsageQuery{By: "job", UID: -1})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range sums {
			if u.Key == "1" && (u.Seconds < want-1.5 || u.Seconds > want+1.5) {
				t.Errorf("it is booked for %g s of %g", u.Seconds, want)
			}
			if u.Key == "1" {
				return
			}
		}
		t.Errorf("it is not booked: %+v", sums)
	})
}

// pricer is a cloud that knows the price of spot only.
type pricer struct {
	cloud.Provider
	full  float64 // on demand; 0: it does not know
	usd   float64
	mu    sync.Mutex // guards err and asked, where the daemon asks beside the test
	err   error
	asked int
}

func (p *pricer) fails(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *pricer) Prices(_ context.Context, offerings []cloud.Offering) (all []cloud.OfferingPrice, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	for _, o := range offerings {
		if o.Market == cloud.Spot && p.err == nil {
			all = append(all, cloud.OfferingPrice{Offering: o, USDPerHour: p.usd, Source: "spot-history"})
		}
		if o.Market == cloud.OnDemand && p.full > 0 {
			all = append(all, cloud.OfferingPrice{Offering: o, USDPerHour: p.full, Source: "pricing-api"})
		}
	}
	return all, p.err
}

func TestPrices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := filepath.Join(t.TempDir(), "p.csv")
		if err := os.WriteFile(table, []byte("type,zone,market,usd_per_hour,date\nm5,,spot,7,2026-01-01\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &pricer{usd: 1}
		p := newPrices([]config.Provider{{Name: "here", PriceTable: table}, {Name: "bad", PriceTable: "/nowhere"}},
			map[string]cloud.Provider{"here": c}, slog.New(slog.DiscardHandler))
		spot, full, own := cloud.Offering{Type: "c6", Market: cloud.Spot}, cloud.Offering{Type: "c6", Market: cloud.OnDemand}, cloud.Offering{Type: "m5", Market: cloud.Spot}
		all := []power.Instance{machine("i-1", spot), machine("i-2", spot), machine("i-3", full), machine("i-4", own)}
		expect := func(what string, asked int, usd float64) {
			t.Helper()
			p.learn(t.Context(), all)
			if got := p.price("here", spot).USDPerHour; c.asked != asked || got != usd {
				t.Errorf("%s: asked %d times, want %d; price %v, want %v", what, c.asked, asked, got, usd)
			}
		}
		expect("first", 1, 1)
		if p.price("here", full).Known() || p.price("bad", spot).Known() {
			t.Error("a price that nobody knows is known")
		}
		if q := p.price("here", own); q.USDPerHour != 7 || q.Source != "table" {
			t.Errorf("the site's own price: %+v", q)
		}
		all = all[:2]
		expect("at once", 1, 1)
		c.usd = 2
		time.Sleep(59 * time.Minute)
		expect("within the hour", 1, 1)
		time.Sleep(2 * time.Minute)
		expect("after an hour", 2, 2)
		c.err = errors.New("throttled")
		time.Sleep(61 * time.Minute)
		expect("while the cloud does not say", 3, 2)
		expect("and at once", 3, 2)
		time.Sleep(priceAgain)
		expect("and five minutes later", 4, 2)
		c.full = 3
		time.Sleep(56 * time.Minute)
		expect("after another hour", 5, 2)
		if got := p.price("here", full).USDPerHour; got != 3 {
			t.Errorf("what runs on spot costs %v on demand", got)
		}
	})
}
