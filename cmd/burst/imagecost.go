package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// built is a build that has ended.
type built struct {
	cfg      *config.Config
	pool     config.Pool // of whose source it is
	provider cloud.Provider
	result   imaging.Result
}

// tellCost has burstd book the instance, and says on w about how much it cost, which it returns, and
// where burst cost lacks it.
func tellCost(ctx context.Context, w io.Writer, b built) (usd *float64) {
	if b.result.Instance == "" {
		return nil
	}
	booked := "which burst cost has"
	if !b.result.Gone {
		booked = "which burst cost has once burstd has seen its end"
	} else if err := b.book(ctx); errors.Is(err, api.ErrAway) {
		booked = "which burst cost does not have, unless only burstd's answer was lost, or the provider still lists it when burstd is back: " + printable(err.Error())
	} else if err != nil {
		booked = "which burst cost does not have: " + printable(err.Error())
	}
	about := "an unknown amount"
	if usd = b.cost(ctx); usd != nil {
		about = fmt.Sprintf("about %.3f USD", *usd)
	}
	fmt.Fprintf(w, "the instance cost %s, %s\n", about, booked)
	return usd
}

// book has burstd's ledger have the instance, which is gone. A request that gets no answer is made once more.
func (b built) book(ctx context.Context) error {
	client := api.NewClient(b.cfg.Endpoint.Socket)
	defer client.Close()
	r := b.result
	request := api.Builder{Instance: r.Instance, Token: r.Token, Provider: b.pool.Power.Provider, Pool: b.pool.Power.Name,
		Type: r.Offering.Type, Zone: r.Offering.Zone, Market: string(r.Offering.Market), Launched: r.Launched, Ended: r.Ended, Guessed: r.Guessed}
	ask := func() error {
		ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
		defer cancel()
		return client.BookBuilder(ctx, request)
	}
	err := ask()
	if errors.Is(err, api.ErrAway) {
		err = ask()
	}
	return err
}

// cost is about what the instance of a build has cost, in USD; nil if there was none,
// or its price is not known. It is asked for when all is done, and not for long.
func (b built) cost(ctx context.Context) *float64 {
	r := b.result
	if r.Instance == "" || r.Launched.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	p, _ := b.cfg.Provider(b.pool.Power.Provider)
	rows := []priced{{Offering: r.Offering}}
	left, err := fromTable(p, rows)
	if err != nil {
		return nil // what is wrong with the table, burst check says
	}
	usd, by := rows[0].USDPerHour, price.Of(p.Kind)
	if pricer, ok := b.provider.(cloud.Pricer); ok && len(left) > 0 {
		known, _ := pricer.Prices(ctx, left) // what is not known is not said
		for _, k := range known {
			usd, by = k.USDPerHour, by.UpTo(k.USDPerHour, k.USDPerMonth)
		}
	}
	if usd <= 0 {
		return nil
	}
	usd = by.Cost(usd, r.Launched, r.Ended)
	return &usd
}
