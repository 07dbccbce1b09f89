package aws

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

func spotItem(name, zone, usd, at string) string {
	return fmt.Sprintf("<item><instanceType>%s</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>%s</spotPrice><timestamp>%s</timestamp><availabilityZone>%s</availabilityZone></item>", name, usd, at, zone)
}

// product is one of the Pricing API's products, as AWS writes it.
func product(market, currency, price string) string {
	return fmt.Sprintf(`{"product":{"productFamily":"Compute Instance","attributes":{"instanceType":"c6i.large","regionCode":"us-east-1","marketoption":%q,"operation":"RunInstances"},"sku":"S"},"serviceCode":"AmazonEC2","terms":{"OnDemand":{"S.J":{"priceDimensions":{"S.J.6":{"unit":"Hrs","endRange":"Inf","description":"d","appliesTo":[],"rateCode":"S.J.6","beginRange":"0","pricePerUnit":{%q:%q}}},"sku":"S","effectiveDate":"2026-11-01T00:00:00Z","offerTermCode":"J","termAttributes":{}}}},"version":"1","publicationDate":"2026-11-20T00:00:00Z"}`, market, currency, price)
}

// products answers GetProducts by the type asked for.
func products(byType map[string][]string) answer {
	return func(_ url.Values, body string) (int, string) {
		var list []string
		for name, all := range byType {
			if strings.Contains(body, `"`+name+`"`) {
				for _, one := range all {
					list = append(list, fmt.Sprintf("%q", one))
				}
			}
		}
		return 200, `{"FormatVersion":"aws_v1","PriceList":[` + strings.Join(list, ",") + `]}`
	}
}

func TestPrices(t *testing.T) {
	p, aws := answering(t, Config{}, map[string]answer{
		"DescribeSpotPriceHistory": fixed("<spotPriceHistorySet>" +
			spotItem("c6i.large", "us-east-1a", "0.0300", "2026-11-01T00:00:00Z") +
			spotItem("c6i.large", "us-east-1a", "0.0310", "2026-11-02T00:00:00Z") +
			spotItem("c6i.large", "us-east-1a", "0.0290", "2026-10-31T00:00:00Z") +
			spotItem("c6i.large", "us-east-1b", "0.0350", "2026-11-01T12:00:00Z") +
			spotItem("c6i.large", "us-east-1c", "0.0000", "2026-11-01T12:00:00Z") +
			"</spotPriceHistorySet>"),
		"GetProducts": products(map[string][]string{
			"c6i.large": {product("CapacityBlock", "USD", "0.01"), product("OnDemand", "USD", "0.0000000000"), product("OnDemand", "USD", "0.0850000000")},
		}),
	})
	spot := func(zone string) cloud.Offering {
		return cloud.Offering{Type: "c6i.large", Zone: zone, Market: cloud.Spot}
	}
	onDemand := cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}
	fromBuiltIn := cloud.Offering{Type: "c5n.18xlarge", Market: cloud.OnDemand}
	for range 2 {
		got, err := p.Prices(t.Context(), []cloud.Offering{
			onDemand, spot("us-east-1a"), spot("us-east-1c"), spot("us-east-1d"), spot(""), fromBuiltIn,
			{Type: "x9.huge", Market: cloud.OnDemand}, {Type: "x9.huge", Market: cloud.Spot},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || time.Since(got[0].Date) > time.Minute {
			t.Fatalf("prices %v: the first is not of now", got)
		}
		got[0].Date = time.Time{}
		want := []cloud.OfferingPrice{
			{Offering: onDemand, USDPerHour: 0.085, Source: "pricing-api"},
			{Offering: spot("us-east-1a"), USDPerHour: 0.031, Date: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), Source: "spot-history"},
			{Offering: spot(""), USDPerHour: 0.035, Date: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), Source: "spot-history"},
			{Offering: fromBuiltIn, USDPerHour: 3.888, Date: time.Date(2025, 3, 2, 0, 0, 0, 0, time.UTC), Source: "table"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("prices %+v, want %+v", got, want)
		}
	}
	if n := aws.count("DescribeSpotPriceHistory"); n != 1 {
		t.Errorf("%d questions for spot prices, want 1", n)
	}
	if n := aws.count("GetProducts"); n != 3 {
		t.Errorf("%d questions for on-demand prices, want one for each type", n)
	}
}

func TestPricesNotKnown(t *testing.T) {
	p, aws := answering(t, Config{}, map[string]answer{
		"DescribeSpotPriceHistory": refusal(403, "UnauthorizedOperation", "You are not authorized"),
		"GetProducts":              refusal(400, "AccessDeniedException", "no"),
	})
	spot := cloud.Offering{Type: "c6i.large", Market: cloud.Spot}
	for range 2 {
		got, err := p.Prices(t.Context(), []cloud.Offering{spot, {Type: "c6i.large", Market: cloud.OnDemand}, {Type: "c5.large", Market: cloud.OnDemand}})
		if cloud.KindOf(err) != cloud.Auth || len(got) != 2 || got[0].Source != "table" {
			t.Errorf("got %v, %v; want the table's two, and that spot prices could not be had", got, err)
		}
		if got, err := p.Prices(t.Context(), []cloud.Offering{{Type: "c6i.large", Market: cloud.OnDemand}, {Type: "x9.huge", Market: cloud.OnDemand}}); cloud.KindOf(err) != cloud.Auth || len(got) != 1 {
			t.Errorf("got %v, %v; want the table's, and that the other could not be had", got, err)
		}
		if _, err := p.Prices(t.Context(), []cloud.Offering{{Type: "c6i.large", Market: cloud.OnDemand}}); err != nil {
			t.Errorf("%v, of what the table has", err)
		}
	}
	if aws.count("GetProducts") != 1 || strings.Count(aws.log.String(), "Pricing API") != 2 { // once, in message and error
		t.Errorf("%d questions, want 1 and one warning; log:\n%s", aws.count("GetProducts"), aws.log.String())
	}
	if _, err := p.Prices(t.Context(), []cloud.Offering{spot}); cloud.KindOf(err) != cloud.Auth {
		t.Errorf("error %v with nothing known, want auth", err)
	}
}

func TestHourlyUSD(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       float64
		fails      bool
	}{
		{"on-demand", product("OnDemand", "USD", "0.0850000000"), 0.085, false},
		{"no market, as in old lists", product("", "USD", "1.5"), 1.5, false},
		{"capacity block", product("CapacityBlock", "USD", "31.4"), 0, false},
		{"yuan", product("OnDemand", "CNY", "0.5"), 0, false},
		{"zero", product("OnDemand", "USD", "0.0000000000"), 0, false},
		{"no terms", `{"product":{}}`, 0, false},
		{"no JSON", `<html>`, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := hourlyUSD(c.text); got != c.want || (err != nil) != c.fails {
				t.Errorf("hourlyUSD = %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestPricingHome(t *testing.T) {
	for region, want := range map[string]string{
		"us-east-1": "us-east-1", "us-west-2": "us-east-1", "ca-central-1": "us-east-1", "sa-east-1": "us-east-1",
		"eu-west-1": "eu-central-1", "me-south-1": "eu-central-1", "ap-southeast-2": "ap-south-1",
		"cn-north-1": "cn-northwest-1", "us-gov-west-1": "", "us-iso-east-1": "", "eusc-de-east-1": "eusc-de-east-1",
	} {
		if got := pricingHome(region); got != want {
			t.Errorf("pricingHome(%s) = %q, want %q", region, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table, err := onDemandTable()
	if err != nil {
		t.Fatal(err)
	}
	if len(table) < 100 {
		t.Errorf("%d prices in the built-in table", len(table))
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "# nothing\n", "the table is empty"},
		{"zero", "type,region,usd_per_hour,date\nc5.large,us-east-1,0,2025-03-02\n", "c5.large,us-east-1,0,2025-03-02"},
		{"no day", "type,region,usd_per_hour,date\nc5.large,us-east-1,1,March\n", "c5.large,us-east-1,1,March"},
		{"twice", "type,region,usd_per_hour,date\nc,r,1,2025-03-02\nc,r,2,2025-03-02\n", "c,r,2,2025-03-02"},
		{"too few", "type,region,usd_per_hour,date\nc5.large,us-east-1,1\n", "wrong number of fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readTable([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzHourlyUSD(f *testing.F) {
	for _, text := range []string{product("OnDemand", "USD", "0.0850000000"), product("OnDemand", "USD", "NaN"), `{"terms":{"OnDemand":null}}`, ``} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		usd, err := hourlyUSD(text)
		if !(usd >= 0) || usd > math.MaxFloat64 || err != nil && usd != 0 {
			t.Errorf("hourlyUSD(%q) = %v, %v", text, usd, err)
		}
	})
}
