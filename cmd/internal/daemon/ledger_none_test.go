package daemon

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
)

// TestWhatNeverHasAPrice: its rows are looked at once an hour, when those of the same instance may have one.
func TestWhatNeverHasAPrice(t *testing.T) {
	st, err := store.Open(t.Context(), newJournal(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{store: st, log: slog.New(slog.DiscardHandler), prices: newPrices(nil, nil, slog.New(slog.DiscardHandler)), meters: newMeters(nil, nil)}
		now := time.Now()
		put := func(id string) {
			row := ledger.Row{Instance: id, Provider: "here", Pool: "p", Offering: cloud.Offering{Type: "odd", Market: cloud.Spot}, From: now.Add(-time.Hour), To: now.Add(-time.Minute), UID: -1, Share: 1}
			priced := row
			priced.From, priced.To, priced.Price = row.To, now, ledger.Price{USDPerHour: 2, Source: "table"}
			if err := st.PutUsage(t.Context(), []ledger.Row{row, priced}); err != nil {
				t.Fatal(err)
			}
		}
		left := func() int {
			if err := d.priceLate(t.Context()); err != nil {
				t.Fatal(err)
			}
			all, err := st.Unpriced(t.Context(), now.Add(-lateFor))
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		for i, step := range []struct {
			wait time.Duration
			left int
		}{{0, 0}, {lateEvery, 1}, {lateAnew, 0}} {
			put(fmt.Sprint("i-", i))
			time.Sleep(step.wait)
			if got := left(); got != step.left {
				t.Errorf("step %d: %d offerings are without a price, want %d", i, got, step.left)
			}
		}
		put("i-9")
		if all, err := st.Unpriced(t.Context(), now); err != nil || len(all) > 0 {
			t.Errorf("what is older is listed: %+v, %v", all, err)
		}
	})
}
