package vultr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
)

// plan is what Vultr says of a plan, of either kind. The SDK's own types lack
// the hourly price and the prices that are a region's own.
type plan struct {
	ID           string       `json:"id"`
	VCPUs        int          `json:"vcpu_count"`
	Cores        int          `json:"cpu_count"`   // of bare metal
	Threads      int          `json:"cpu_threads"` // of bare metal, all together
	RAM          int          `json:"ram"`         // MiB
	Disk         int          `json:"disk"`        // GB, of each
	GPU          string       `json:"gpu_type"`
	GPUs         gpuCount     `json:"gpu_count"`
	VRAM         int          `json:"gpu_vram_gb"` // of all its GPUs, or of its part of one
	Locations    []string     `json:"locations"`
	MonthlyCost  float64      `json:"monthly_cost"`
	HourlyCost   float64      `json:"hourly_cost"`
	LocationCost locationCost `json:"location_cost"`
	OnDemand     *bool        `json:"deploy_ondemand"` // nil: it is not said, and so it is sold
	Storage      string       `json:"storage_type"`

	metal bool
}

type cost struct {
	Monthly float64 `json:"monthly_cost"`
	Hourly  float64 `json:"hourly_cost"`
}

// locationCost is by region. PHP's JSON, which Vultr's is, has an empty object as [].
type locationCost map[string]cost

// UnmarshalJSON implements json.Unmarshaler.
func (l *locationCost) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		*l = nil
		return nil
	}
	return json.Unmarshal(text, (*map[string]cost)(l))
}

// planPage is one page of either list.
type planPage struct {
	Plans []plan        `json:"plans"`
	Metal []plan        `json:"plans_metal"`
	Meta  *govultr.Meta `json:"meta"`
}

// allPlans reads both lists of plans.
func (p *Provider) allPlans(ctx context.Context, op string) ([]plan, error) {
	if all, ok := p.know.plans.Get("", listsAge); ok {
		return all, nil
	}
	var all []plan
	for _, metal := range []bool{false, true} {
		path, what := "/v2/plans", "listing plans"
		if metal {
			path, what = "/v2/plans-metal", "listing plans of bare metal"
		}
		part, err := listed(ctx, p, op, list[plan]{
			what: what,
			id:   func(pl plan) string { return pl.ID },
			read: func(ctx context.Context, at *govultr.ListOptions) ([]plan, *govultr.Meta, error) {
				var page planPage
				q := url.Values{"per_page": {fmt.Sprint(at.PerPage)}}
				if at.Cursor != "" {
					q.Set("cursor", at.Cursor)
				}
				err := p.request(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &page)
				return append(page.Plans, page.Metal...), page.Meta, err
			}})
		if err != nil {
			return nil, err
		}
		for _, one := range part {
			one.metal = metal
			all = append(all, one)
		}
	}
	p.know.plans.Put("", all)
	return all, nil
}

func (p *Provider) plan(ctx context.Context, op, name string) (plan, error) {
	all, err := p.allPlans(ctx, op)
	if err != nil {
		return plan{}, err
	}
	i := slices.IndexFunc(all, func(pl plan) bool { return pl.ID == name })
	if near := alike(all, name); i < 0 && len(near) > 0 {
		return plan{}, invalid(op, "Vultr has no plan %q; it has %s", name, strings.Join(near, ", "))
	}
	if i < 0 {
		return plan{}, invalid(op, "Vultr has no plan %q: its console and \"vultr-cli plans list\" show them", name)
	}
	return all[i], nil
}

// alike are the plans whose names begin with this one, or, if there is none, as it does up to
// its first dash; not more than a line takes.
func alike(all []plan, name string) (near []string) {
	family, _, _ := strings.Cut(name, "-")
	for _, begin := range []string{name, family + "-"} {
		for _, pl := range all {
			if strings.HasPrefix(pl.ID, begin) {
				near = append(near, pl.ID)
			}
		}
		if len(near) > 0 {
			break
		}
	}
	return near[:min(len(near), 12)]
}

// available are the plans of a kind that the region has now.
func (p *Provider) available(ctx context.Context, op string, pl plan) (map[string]bool, error) {
	if have, ok := p.know.available.Get(pl.kind(), availableAge); ok {
		return have, nil
	}
	have := map[string]bool{}
	err := call(ctx, op, "asking which plans "+p.c.Region+" has", func(ctx context.Context) error {
		got, _, err := p.api.Region.Availability(ctx, p.c.Region, pl.kind())
		if err != nil {
			return err
		}
		if got == nil || got.AvailablePlans == nil {
			return errors.New("it names no plans")
		}
		for _, n := range got.AvailablePlans {
			have[n] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.know.available.Put(pl.kind(), have)
	return have, nil
}

// kind is the type of plans that a region's list of available ones is asked for; empty: of all, of which
// what Vultr calls "all" may lack those with whole GPUs.
func (pl plan) kind() string {
	if pl.metal {
		return "vbm"
	}
	return ""
}

// Types implements cloud.Catalog. Vultr does not say which vCPUs of cloud compute
// are threads of one core: the guest sees each as a core of its own.
func (p *Provider) Types(ctx context.Context, names []string) ([]cloud.InstanceType, error) {
	types := make([]cloud.InstanceType, len(names))
	for i, name := range names {
		pl, err := p.plan(ctx, "types", name)
		if err != nil {
			return nil, err
		}
		t := cloud.InstanceType{Name: name, CPUs: pl.VCPUs, Cores: pl.VCPUs, CoresAreVCPUs: true, ThreadsPerCore: 1, MemoryMiB: pl.RAM, Arch: pl.arch(), Zones: pl.Locations}
		if pl.metal {
			t.Cores, t.CPUs, t.CoresAreVCPUs = pl.Cores, max(pl.Threads, pl.Cores), false
			if t.Cores > 0 {
				t.ThreadsPerCore = t.CPUs / t.Cores
			}
		}
		if t.CPUs < 1 || t.MemoryMiB < 1 {
			return nil, transient("types", fmt.Errorf("plan %s is listed without its CPUs or its memory", name))
		}
		t.GPUs, t.GPUNote = pl.gpus()
		types[i] = t
	}
	return types, nil
}

// price is that of an hour in a region, and of a month at most; 0: not known. Where only
// a month's is listed, the hour's is that by the hours that a month is billed with at most.
func (pl plan) price(region string) cost {
	c := cost{pl.MonthlyCost, pl.HourlyCost}
	if own, ok := pl.LocationCost[region]; ok && (own.Hourly > 0 || own.Monthly > 0) {
		c = own
	}
	if c.Hourly <= 0 {
		c.Hourly = c.Monthly / price.PerHour.Month.Hours()
	}
	return c
}

// Prices implements cloud.Pricer, from the lists of plans.
func (p *Provider) Prices(ctx context.Context, offerings []cloud.Offering) ([]cloud.OfferingPrice, error) {
	all, err := p.allPlans(ctx, "prices")
	if err != nil {
		return nil, err
	}
	var known []cloud.OfferingPrice
	for _, o := range offerings {
		i := slices.IndexFunc(all, func(pl plan) bool { return pl.ID == o.Type })
		if i < 0 || o.Market != cloud.OnDemand || o.Zone != "" {
			continue
		}
		if c := all[i].price(p.c.Region); c.Hourly > 0 {
			known = append(known, cloud.OfferingPrice{Offering: o, USDPerHour: c.Hourly, USDPerMonth: c.Monthly, Date: time.Now(), Source: "plans-api"})
		}
	}
	return known, nil
}
