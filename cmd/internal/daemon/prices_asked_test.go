package daemon

import (
	"context"
	"testing"

	"github.com/burst-hpc/burst/cloud"
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
