package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/slurm/power"
)

// never is a cloud that is asked for prices and has not answered.
type never struct{ cloud.Provider }

func (never) Prices(ctx context.Context, _ []cloud.Offering) ([]cloud.OfferingPrice, error) {
	return nil, ctx.Err()
}

// TestPricesAreAskedForFirst: what an offering costs that no pool has any more is not unknown until the ledger has
// asked, which has it learn what lives.
func TestPricesAreAskedForFirst(t *testing.T) {
	d := &Daemon{}
	c := map[string]cloud.Provider{"here": never{}}
	d.prices, d.market = newPrices(nil, c, nil), newMarket(nil, nil, c, nil)
	d.market.round = true
	o := cloud.Offering{Type: "gone", Market: cloud.Spot}
	if usd, asked := d.dearest("here", o); usd != 0 || asked {
		t.Errorf("%g, %v before it was asked for", usd, asked)
	}
	d.prices.learn(t.Context(), nil)
	if _, asked := d.dearest("here", o); !asked {
		t.Error("it was asked for")
	}
}

// halting is a cloud that has no spot price of a type to tell at first, and those of on-demand and of type u always.
type halting struct {
	cloud.Provider
	fails int // as often it cannot be asked
	none  bool
	kind  cloud.Kind   // of its error; empty: it has none
	asked atomic.Int32 // about spot
}

func (h *halting) Prices(_ context.Context, offerings []cloud.Offering) (all []cloud.OfferingPrice, err error) {
	if slices.ContainsFunc(offerings, func(o cloud.Offering) bool { return o.Market == cloud.Spot }) {
		h.asked.Add(1)
	}
	for _, o := range offerings {
		switch {
		case o.Market == cloud.OnDemand, o.Type == "u":
			all = append(all, cloud.OfferingPrice{Offering: o, USDPerHour: 1})
		case int(h.asked.Load()) <= h.fails:
			if err = errors.New("no route to host"); h.kind != "" {
				err = errors.Join(&cloud.Error{Kind: h.kind, Op: "prices", Err: err})
			}
		case !h.none:
			all = append(all, cloud.OfferingPrice{Offering: o, USDPerHour: 0.3})
		}
	}
	return all, err
}

// TestAPriceThatCouldNotBeAskedFor: a look in vain makes no market one without a price. It is asked for again soon, the
// budget waits meanwhile, and only when nobody has answered for long it has none.
func TestAPriceThatCouldNotBeAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name     string
		c        *halting
		known    time.Duration // after which spot is passed over, or has its price; a fifth more or less
		unpriced bool
		counts   bool     // there is a price for what has none
		more     []string // types beside it
	}{
		{"at once", &halting{}, 0, false, false, nil},
		{"there is none", &halting{none: true}, 0, true, false, nil},
		{"one look fails", &halting{fails: 1}, 20 * time.Second, false, false, nil},
		{"one fails, and there is none", &halting{fails: 1, none: true}, 20 * time.Second, true, false, nil},
		{"four fail", &halting{fails: 4}, 260 * time.Second, false, false, nil},
		{"all fail", &halting{fails: 1e6}, unansweredFor, true, false, nil},
		{"all fail, and nobody waits", &halting{fails: 1e6}, 0, true, true, nil},
		{"one fails, of one of two types", &halting{fails: 1}, 20 * time.Second, false, false, []string{"u"}},
		{"one is throttled, of one of two", &halting{fails: 1, kind: cloud.Throttled}, 20 * time.Second, false, false, []string{"u"}},
		{"all fail, of one of two", &halting{fails: 1e6, kind: cloud.Transient}, unansweredFor, true, false, []string{"u"}},
		{"one of two may not be asked for", &halting{fails: 1e6, kind: cloud.Auth}, 0, true, false, []string{"u"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := map[string]cloud.Provider{"here": tt.c}
				d := &Daemon{}
				log := slog.New(slog.DiscardHandler)
				pool := config.Pool{Power: power.Pool{Name: "p", Provider: "here", Fleet: fleet.Config{Types: append(tt.more, "t"), Market: fleet.SpotThenOnDemand}}}
				d.prices, d.market = newPrices(nil, c, log), newMarket(nil, nil, c, log)
				d.market.all([]config.Pool{pool}, tt.counts)
				d.prices.learnt.Store(true)
				told := 0
				d.market.news = func() { told++ }
				ctx, end := context.WithCancel(t.Context())
				go func() { _ = d.market.run(ctx) }()
				keeper := &spending.Keeper{Price: d.dearest}
				spot := cloud.Offering{Type: "t", Market: cloud.Spot}
				known := time.Duration(-1)
				for after := time.Duration(0); after <= 11*time.Minute; after += time.Second {
					synctest.Wait()
					usd, asked := d.dearest("here", spot)
					priced := keeper.Priced("here", spot)
					if usd > 0 != (asked && !tt.unpriced) || !asked && !priced {
						t.Fatalf("after %s: %g, %v, and it has a price: %v", after, usd, asked, priced)
					}
					if asked && known < 0 {
						known = after
					}
					if usd, asked := d.dearest("here", cloud.Offering{Type: "t", Market: cloud.OnDemand}); usd != 1 || !asked {
						t.Fatalf("on demand: %g, %v", usd, asked)
					}
					time.Sleep(time.Second)
				}
				if known < 0 || known > tt.known*6/5+time.Second || known < tt.known*4/5 || keeper.Priced("here", spot) == tt.unpriced || told != int(tt.c.asked.Load()) || told > 12 {
					t.Errorf("known after %s, asked %d times, told %d times, and it has a price: %v", known, tt.c.asked.Load(), told, keeper.Priced("here", spot))
				}
				end()
				synctest.Wait()
			})
		})
	}
}

// TestAPriceComesAfterLong: a cloud that is silent for longer than a budget waits for it is asked on every two minutes, and the log
// does not say so each time. What answers is asked no more often for that.
func TestAPriceComesAfterLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, well := halting{fails: 14}, halting{}
		c := map[string]cloud.Provider{"silent": &silent, "well": &well}
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, nil))
		var pools []config.Pool
		for _, provider := range []string{"silent", "well"} {
			pools = append(pools, config.Pool{Power: power.Pool{Name: provider, Provider: provider, Fleet: fleet.Config{Types: []string{"t"}, Market: fleet.SpotThenOnDemand}}})
		}
		m := newMarket(nil, nil, c, log)
		m.all(pools, false)
		ctx, end := context.WithCancel(t.Context())
		go func() { _ = m.run(ctx) }()
		last := 0
		for range 60 {
			synctest.Wait()
			if asked := int(silent.asked.Load()); asked == last && asked <= silent.fails {
				t.Fatalf("asked %d times, and not for long", asked)
			}
			last = int(silent.asked.Load())
			time.Sleep(marketLate*6/5 + time.Second)
			if last > silent.fails {
				break
			}
		}
		synctest.Wait()
		if usd, _ := m.price("silent", cloud.Offering{Type: "t", Market: cloud.Spot}); usd != 0.3 {
			t.Errorf("%g after it was asked %d times", usd, silent.asked.Load())
		}
		if lines := strings.Count(said.String(), "\n"); lines < 2 || lines > 4 || well.asked.Load() > 4 {
			t.Errorf("the other was asked %d times, and it is said %d times:\n%s", well.asked.Load(), lines, &said)
		}
		time.Sleep(time.Hour)
		if int(silent.asked.Load()) > last+9 {
			t.Errorf("asked %d times in an hour when it answers", int(silent.asked.Load())-last)
		}
		end()
		synctest.Wait()
	})
}

// inPart tells some prices of each market, and beside that it may not tell the others.
type inPart struct{ cloud.Provider }

func (inPart) Prices(_ context.Context, all []cloud.Offering) (found []cloud.OfferingPrice, _ error) {
	for _, o := range all {
		if o.Type == "t" && (o.Market != cloud.Spot || o.Zone != "b") {
			found = append(found, cloud.OfferingPrice{Offering: o, USDPerHour: 1})
		}
	}
	return found, &cloud.Error{Kind: cloud.Auth, Op: "prices", Err: errors.New("of one type nobody may know")}
}

// telling fails, with such an error.
type telling struct {
	cloud.Provider
	kind cloud.Kind
}

func (c telling) Prices(context.Context, []cloud.Offering) ([]cloud.OfferingPrice, error) {
	return nil, &cloud.Error{Kind: c.kind, Op: "prices", Err: errors.New("no")}
}

// TestWhatIsNotSoldIsNotWaitedFor: of a market of which a cloud has told prices, what has none is passed over at once, also
// where it may not tell them all. While it does not answer, they are waited for.
func TestWhatIsNotSoldIsNotWaitedFor(t *testing.T) {
	c, log := map[string]cloud.Provider{"here": inPart{}}, slog.New(slog.DiscardHandler)
	m := newMarket(nil, nil, c, log)
	f := fleet.Config{Types: []string{"t", "u"}, Zones: []string{"a", "b"}, Market: fleet.SpotThenOnDemand}
	m.all([]config.Pool{{Power: power.Pool{Name: "p", Provider: "here", Fleet: f}}}, false)
	if m.learn(t.Context(), "here", f) {
		t.Error("a budget waits")
	}
	for _, o := range f.Offerings() {
		if !m.asked("here", o) {
			t.Errorf("%s is waited for", o)
		}
	}
	table, err := price.Parse(strings.NewReader("type,zone,market,usd_per_hour,date\nt,,on-demand,1,2026-01-01\n"), "prices.csv")
	if err != nil {
		t.Fatal(err)
	}
	f.Market = fleet.OnDemandOnly
	for kind, waits := range map[cloud.Kind]bool{cloud.Auth: false, cloud.Invalid: false, cloud.Transient: true} {
		m = newMarket(nil, map[string]price.Table{"here": table}, map[string]cloud.Provider{"here": telling{kind: kind}}, log)
		got := m.learn(t.Context(), "here", f)
		if asked := m.asked("here", cloud.Offering{Type: "u", Zone: "a", Market: cloud.OnDemand}); got != waits || asked == waits {
			t.Errorf("%s: what the site's own table lacks is waited for: %v, and has been asked for: %v", kind, got, asked)
		}
	}
}
