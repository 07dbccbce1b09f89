package vultr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cloud"
)

const opPrepare = "prepare"

// Prepare implements cloud.Preparer: the plan is looked up, the image resolved,
// and the SSH keys found or given to the account.
func (p *Provider) Prepare(ctx context.Context, requests []cloud.LaunchRequest) []error {
	errs := p.prepare(ctx, opPrepare, requests)
	for i, r := range requests {
		if errs[i] == nil {
			errs[i] = p.room(ctx, r)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.own) > 10000 {
		clear(p.own) // tokens that were given up: launches of them would wait once for the lag, no more
	}
	for i, r := range requests {
		if errs[i] == nil {
			p.own[r.Token] = r.Pool
		}
	}
	return errs
}

// room refuses a plan that the region has none of now, before it is asked for. An
// empty list, or none, says nothing: the launch will tell.
func (p *Provider) room(ctx context.Context, r cloud.LaunchRequest) error {
	plan, err := p.plan(ctx, opPrepare, r.Offering.Type)
	if err != nil {
		return err
	}
	have, err := p.available(ctx, opPrepare, plan)
	if err != nil || len(have) == 0 || have[plan.ID] {
		return nil
	}
	return &cloud.Error{Kind: cloud.Capacity, Op: opPrepare, Offering: r.Offering, Settled: true,
		Err: fmt.Errorf("no %s is left at Vultr in %s now", plan.ID, p.c.Region)}
}

func (p *Provider) prepare(ctx context.Context, op string, requests []cloud.LaunchRequest) []error {
	errs := make([]error, len(requests))
	for i := range requests {
		r := &requests[i]
		s, err := p.specOf(ctx, op, *r)
		if err != nil {
			errs[i] = err
			continue
		}
		if r.Spec, err = json.Marshal(s); err != nil {
			errs[i] = transient(op, err)
		}
	}
	return errs
}

func (p *Provider) specOf(ctx context.Context, op string, r cloud.LaunchRequest) (spec, error) {
	if err := p.sold(r); err != nil {
		return spec{}, err
	}
	plan, err := p.regional(ctx, op, r.Offering.Type)
	if err != nil {
		return spec{}, err
	}
	pool := p.c.Pools[r.Pool]
	s := spec{Metal: plan.metal, Region: p.c.Region, VPC: pool.VPC, VPCOnly: pool.VPCOnly,
		Limited: pool.Login == LimitedUser, Script: pool.StartupScript, Firewall: pool.FirewallGroup, Word: pool.Word}
	if _, builder := cloud.BuilderUntil(r.Token); builder && plan.metal {
		return spec{}, invalid(op, "%s is bare metal, of which Vultr makes no snapshots", plan.ID)
	}
	if err := fits(op, plan, pool); err != nil {
		return spec{}, err
	}
	if s.SSHKeys, err = p.sshKeys(ctx, op, pool); err != nil {
		return spec{}, err
	}
	return s, p.resolve(ctx, op, r.Image, &s)
}

// regional is a plan that is sold in the region. Vultr's list of plans has some with fewer
// locations than sell them, or none: what a region itself has now is sold there too. One
// that neither names may be there later, as what is sold out may be all that is wrong. One that is
// not sold on demand, or has no disk, is no lack of capacity.
func (p *Provider) regional(ctx context.Context, op, name string) (plan, error) {
	found, err := p.plan(ctx, op, name)
	if err == nil && found.OnDemand != nil && !*found.OnDemand {
		return plan{}, invalid(op, "Vultr sells plan %s preemptible only, which Burst does not buy: take another plan", name)
	}
	if err == nil && found.Storage == "block_storage" {
		return plan{}, invalid(op, "plan %s has no disk of its own, but block devices, which Burst makes none of: take another plan", name)
	}
	if err != nil || slices.Contains(found.Locations, p.c.Region) {
		return found, err
	}
	have, err := p.available(ctx, op, found)
	if err != nil || have[found.ID] {
		return found, err
	}
	where := "no region"
	if len(found.Locations) > 0 {
		where = strings.Join(found.Locations, ", ")
	}
	return plan{}, &cloud.Error{Kind: cloud.Capacity, Op: op, Offering: cloud.Offering{Type: name, Market: cloud.OnDemand}, Settled: true,
		Err: fmt.Errorf("plan %s is not in %s now: Vultr lists it for %s", name, p.c.Region, where)}
}

// sold refuses what Vultr does not sell at all.
func (p *Provider) sold(r cloud.LaunchRequest) error {
	switch {
	case r.Offering.Market != cloud.OnDemand:
		return invalid(opLaunch, "Burst buys nothing of Vultr's but on demand: set market = \"on-demand\" in pool %s", r.Pool)
	case r.Offering.Zone != "":
		return invalid(opLaunch, "Vultr's regions have no zones: remove zones from pool %s, or make a provider for each region", r.Pool)
	case len(r.Or) > 0:
		return invalid(opLaunch, "a launch at Vultr has one plan, and this one has %d more", len(r.Or))
	}
	return nil
}

// fits refuses settings that Vultr's bare metal cannot have at its launch.
func fits(op string, plan plan, pool Pool) error {
	switch {
	case !plan.metal:
		return nil
	case pool.VPC != "":
		return invalid(op, "%s is bare metal, which Vultr puts into no VPC at its launch: remove vpc, or take a plan of cloud compute", plan.ID)
	case pool.FirewallGroup != "":
		return invalid(op, "%s is bare metal, for which Vultr has no firewall groups: remove firewall_group", plan.ID)
	}
	return nil
}
