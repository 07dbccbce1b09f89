package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Pricer = (*Provider)(nil)

// Where a price comes from.
const (
	fromSpotHistory = "spot-history"
	fromPricingAPI  = "pricing-api"
	fromTable       = "table"
)

// Prices implements cloud.Pricer, for Linux on shared hardware: spot from EC2's
// price history, on-demand from the Pricing API, or where that cannot be
// asked from a dated table that came with the program. A spot offering without
// a zone costs what the dearest zone asks. The error, beside what is known,
// says that the others without a price could not be asked for.
func (p *Provider) Prices(ctx context.Context, offerings []cloud.Offering) ([]cloud.OfferingPrice, error) {
	var spotTypes []string
	for _, o := range offerings {
		if o.Market == cloud.Spot && !slices.Contains(spotTypes, o.Type) {
			spotTypes = append(spotTypes, o.Type)
		}
	}
	spot, spotErr := p.spotPrices(ctx, spotTypes)
	var prices []cloud.OfferingPrice
	var demandErr error // the first: it is one silence
	for _, o := range offerings {
		price := dearest(spot[o.Type], o.Zone)
		if o.Market == cloud.OnDemand {
			var err error
			price, err = p.onDemandPrice(ctx, o.Type)
			demandErr = cmp.Or(demandErr, err)
		}
		if price.USDPerHour > 0 {
			price.Offering = o
			prices = append(prices, price)
		}
	}
	return prices, errors.Join(spotErr, demandErr, ctx.Err())
}

// spotPrice is a type's price in one zone.
type spotPrice struct {
	zone string
	usd  float64
	date time.Time // since when
}

// spotPrices returns the present prices of the types in each zone that sells them.
func (p *Provider) spotPrices(ctx context.Context, names []string) (map[string][]spotPrice, error) {
	known := map[string][]spotPrice{}
	var missing []string
	for _, name := range names {
		if prices, ok := p.know.spot.Get(name, spotAge); ok {
			known[name] = prices
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return known, nil
	}
	if err, ok := p.know.failed.Get("spot prices", failedAge); ok {
		return known, err
	}
	history, err := p.spotHistory(ctx, missing)
	if err != nil {
		err = failure("prices", fmt.Errorf("reading the spot price history in %s: %w", p.c.Region, err))
		if ctx.Err() == nil {
			p.know.failed.Put("spot prices", err)
		}
		return known, err
	}
	now := latest(history)
	for _, name := range missing {
		known[name] = now[name] // none: not sold, and not asked again for a while
		p.know.spot.Put(name, known[name])
	}
	return known, nil
}

// spotHistory reads the prices of the present moment. The history of a moment
// is the price that held then, in each zone.
func (p *Provider) spotHistory(ctx context.Context, names []string) ([]types.SpotPrice, error) {
	now := time.Now()
	var history []types.SpotPrice
	for batch := range slices.Chunk(names, typesBatch) {
		in := &ec2.DescribeSpotPriceHistoryInput{
			StartTime: &now,
			// Which of the two an account sees depends on its age.
			ProductDescriptions: []string{string(types.RIProductDescriptionLinuxUnix), string(types.RIProductDescriptionLinuxUnixAmazonVpc)},
		}
		for _, name := range batch {
			in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
		}
		pages := ec2.NewDescribeSpotPriceHistoryPaginator(p.clients.ec2, in)
		for pages.HasMorePages() {
			out, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			history = append(history, out.SpotPriceHistory...)
		}
	}
	return history, nil
}

// latest takes the newest price of each type and zone; those that are no
// price are left out.
func latest(history []types.SpotPrice) map[string][]spotPrice {
	prices := map[string][]spotPrice{}
	for _, h := range history {
		usd, ok := positive(aws.ToString(h.SpotPrice))
		if !ok {
			continue
		}
		price := spotPrice{zone: aws.ToString(h.AvailabilityZone), usd: usd, date: aws.ToTime(h.Timestamp)}
		name := string(h.InstanceType)
		i := slices.IndexFunc(prices[name], func(known spotPrice) bool { return known.zone == price.zone })
		switch {
		case i < 0:
			prices[name] = append(prices[name], price)
		case price.date.After(prices[name][i].date):
			prices[name][i] = price
		}
	}
	return prices
}

// dearest returns the price in zone, or the highest of all where zone is empty; one of zero: there is none.
func dearest(prices []spotPrice, zone string) cloud.OfferingPrice {
	var best spotPrice
	for _, price := range prices {
		if (zone == "" || price.zone == zone) && price.usd > best.usd {
			best = price
		}
	}
	return cloud.OfferingPrice{USDPerHour: best.usd, Date: best.date, Source: fromSpotHistory}
}

// positive reads a price; zero and what is no number are none.
func positive(s string) (float64, bool) {
	usd, err := strconv.ParseFloat(s, 64)
	return usd, err == nil && usd > 0 && !math.IsInf(usd, 0)
}
