package e2e

import (
	"math"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
)

// vultrHourly is what the fake's plan costs.
const vultrHourly = 0.132

// bill is what a provider is to charge: so many instances, for a time between least and most together.
type bill struct {
	instances   int
	usdPerHour  float64
	least, most time.Duration
}

// byHours is Vultr's bill for instances of which none has lived for more than an hour.
func byHours(instances int) bill {
	all := time.Duration(instances) * time.Hour
	return bill{instances, vultrHourly, all, all}
}

// bySeconds is AWS's bill for all instances of moto's, as moto launched them and the test saw
// them end. It waits until it has.
func (e *machines) bySeconds(m *mototest.Moto, usdPerHour float64) bill {
	e.t.Helper()
	all := m.Instances(e.t)
	b := bill{instances: len(all), usdPerHour: usdPerHour}
	for _, i := range all {
		var s seen
		e.s.wait(20*time.Second, "the test sees the end of "+i.ID, func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			s = e.seen[i.ID]
			return !s.gone.IsZero()
		})
		b.least += price.PerSecond.Billed(s.lived.Truncate(time.Second).Sub(i.Launched)) // moto says when it ended in whole seconds, too
		b.most += price.PerSecond.Billed(s.gone.Sub(i.Launched))
	}
	return b
}

// billed waits until the journal is closed, the cloud having confirmed the end of all, and the
// ledger has booked what each provider charges.
func (e *machines) billed(want map[string]bill) {
	e.t.Helper()
	e.s.wait(2*time.Minute, "the journal is closed", func() bool {
		st, err := e.s.API.Status(e.t.Context())
		return err == nil && st.Instances == 0
	})
	const rounding = 0.01 // s
	for provider, w := range want {
		var got api.Usage
		right := func() bool {
			usd := got.Seconds / 3600 * w.usdPerHour
			return got.Instances == w.instances && got.Seconds >= w.least.Seconds()-rounding && got.Seconds <= w.most.Seconds()+rounding &&
				got.UnpricedSeconds == 0 && got.USD != nil && math.Abs(*got.USD-usd) < usd/1000
		}
		for end := time.Now().Add(time.Minute); !right(); time.Sleep(500 * time.Millisecond) {
			if time.Now().After(end) {
				e.t.Fatalf("%s: the ledger has %+v, want %+v", provider, got, w)
			}
			for _, u := range e.usage() {
				if u.Key == provider {
					got = u
				}
			}
		}
		e.t.Logf("%s: %d instances, %.0f s (at least %s, at most %s), %g USD", provider, got.Instances, got.Seconds, w.least, w.most, *got.USD)
	}
}
