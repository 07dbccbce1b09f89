package aws

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/burst-hpc/burst/cloud"
)

// pricingTimeout bounds the question for one price: where the Pricing API has
// no way out of the network, the table must do.
const pricingTimeout = 5 * time.Second

// onDemandPrice returns a type's price in the provider's region; one of zero: there is none. The
// error says that it could not be asked for, and the table has none either.
func (p *Provider) onDemandPrice(ctx context.Context, name string) (cloud.OfferingPrice, error) {
	if price, ok := p.know.onDemand.Get(name, onDemandAge); ok {
		return price, nil
	}
	builtIn, ok := tablePrice(name, p.c.Region)
	age, unknown := silenceAge, func(error) error { return nil }
	if !ok {
		age, unknown = failedAge, func(err error) error { return err }
	}
	silence, silent := p.know.failed.Get("pricing", age)
	home := pricingHome(p.c.Region)
	switch {
	case home == "":
		return builtIn, nil
	case silent:
		return builtIn, unknown(silence)
	}
	price, err := p.askPrice(ctx, home, name)
	if err != nil {
		if ctx.Err() == nil {
			p.know.failed.Put("pricing", err)
			p.log.Warn("the Pricing API gives no prices: those of the built-in table are used, where it has them",
				"provider", p.c.Name, "error", err)
		}
		return builtIn, unknown(err)
	}
	if price.USDPerHour == 0 {
		price = builtIn
	}
	p.know.onDemand.Put(name, price) // none, too: it is not asked again for a while
	return price, nil
}

// askPrice asks the Pricing API for one type; a price of zero says that it
// has none.
func (p *Provider) askPrice(ctx context.Context, home, name string) (cloud.OfferingPrice, error) {
	ctx, cancel := context.WithTimeout(ctx, pricingTimeout)
	defer cancel()
	in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), FormatVersion: aws.String("aws_v1")}
	for _, f := range [][2]string{
		{"regionCode", p.c.Region},
		{"instanceType", name},
		{"operatingSystem", "Linux"},
		{"tenancy", "Shared"},
		{"preInstalledSw", "NA"},
		{"capacitystatus", "Used"},
	} {
		in.Filters = append(in.Filters, types.Filter{Type: types.FilterTypeTermMatch, Field: aws.String(f[0]), Value: aws.String(f[1])})
	}
	pages := pricing.NewGetProductsPaginator(p.newPricing(home), in)
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return cloud.OfferingPrice{}, failure("prices", fmt.Errorf("asking the Pricing API in %s for %s: %w", home, name, err))
		}
		for _, text := range out.PriceList {
			usd, err := hourlyUSD(text)
			if err != nil {
				return cloud.OfferingPrice{}, fmt.Errorf("the Pricing API's answer for %s: %w", name, err)
			}
			if usd > 0 {
				return cloud.OfferingPrice{USDPerHour: usd, Date: time.Now(), Source: fromPricingAPI}, nil
			}
		}
	}
	return cloud.OfferingPrice{}, nil
}

// hourlyUSD reads the on-demand price out of a product of the price list; zero
// if it is no on-demand product, or not sold for USD (as in China).
func hourlyUSD(text string) (float64, error) {
	var product struct {
		Product struct {
			Attributes struct {
				MarketOption string `json:"marketoption"` // "OnDemand", "CapacityBlock"
			} `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					Unit         string            `json:"unit"`
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			} `json:"OnDemand"`
		} `json:"terms"`
	}
	if err := json.Unmarshal([]byte(text), &product); err != nil {
		return 0, err
	}
	if m := product.Product.Attributes.MarketOption; m != "" && m != "OnDemand" {
		return 0, nil
	}
	for _, term := range product.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			if usd, ok := positive(d.PricePerUnit["USD"]); ok && d.Unit == "Hrs" {
				return usd, nil
			}
		}
	}
	return 0, nil
}

// pricingHome is the region whose Pricing API a region's credentials can ask;
// "" for partitions without one.
// https://docs.aws.amazon.com/general/latest/gr/billing.html
func pricingHome(region string) string {
	area, _, _ := strings.Cut(region, "-")
	switch {
	case strings.HasPrefix(region, "us-gov-"), strings.Contains(region, "-iso"):
		return ""
	case area == "cn":
		return "cn-northwest-1"
	case area == "eusc":
		return "eusc-de-east-1"
	case area == "ap":
		return "ap-south-1"
	case area == "eu", area == "me", area == "af", area == "il":
		return "eu-central-1"
	}
	return "us-east-1"
}

//go:embed ondemand.csv
var onDemandCSV []byte

// onDemandTable is the built-in table by type and region. It is a part of the
// program, so that a fault in it is the tests' to find.
var onDemandTable = sync.OnceValues(func() (map[[2]string]cloud.OfferingPrice, error) { return readTable(onDemandCSV) })

func tablePrice(name, region string) (cloud.OfferingPrice, bool) {
	table, err := onDemandTable()
	if err != nil {
		return cloud.OfferingPrice{}, false
	}
	price, ok := table[[2]string{name, region}]
	return price, ok
}

// readTable reads lines "type,region,usd_per_hour,date"; "#" begins a comment.
func readTable(text []byte) (map[[2]string]cloud.OfferingPrice, error) {
	in := csv.NewReader(bytes.NewReader(text))
	in.Comment = '#'
	in.FieldsPerRecord = 4
	records, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, errors.New("the table is empty")
	}
	table := map[[2]string]cloud.OfferingPrice{}
	for _, r := range records[1:] {
		key := [2]string{r[0], r[1]}
		usd, ok := positive(r[2])
		date, err := time.Parse(time.DateOnly, r[3])
		if _, twice := table[key]; twice || !ok || err != nil {
			return nil, fmt.Errorf("the line %q is not a new type and region with a price above zero and a day", strings.Join(r, ","))
		}
		table[key] = cloud.OfferingPrice{USDPerHour: usd, Date: date, Source: fromTable}
	}
	return table, nil
}
