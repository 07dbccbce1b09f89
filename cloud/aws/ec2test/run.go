package ec2test

import "slices"

// remembered is what a ClientToken stands for.
type remembered struct {
	digest   uint64
	machines []*machine
	fleet    *fleet
}

// recall finds an earlier request with the token. Called with the lock held.
func (c *Cloud) recall(p *params) (*remembered, *failure) {
	token := p.get("ClientToken")
	if len(token) > 64 {
		return nil, fail("InvalidParameterValue", "ClientToken must be at most 64 characters")
	}
	r := c.tokens[p.get("Action")+" "+token]
	if token == "" || r == nil {
		return nil, nil
	}
	if r.digest != p.digest() {
		return nil, fail("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
	}
	return r, nil
}

func (c *Cloud) remember(p *params, r *remembered) {
	if token := p.get("ClientToken"); token != "" {
		r.digest = p.digest()
		c.tokens[p.get("Action")+" "+token] = r
	}
}

func (c *Cloud) runInstances(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, failed := c.recall(p)
	if failed != nil {
		return nil, failed
	}
	now := c.now()
	if old != nil {
		gone := func(m *machine) bool { return m.state(now) == terminated }
		if slices.ContainsFunc(old.machines, gone) {
			return nil, fail("IdempotentInstanceTerminated", "The request to launch an instance uses the same client token as a previous request for which the instance has been terminated.")
		}
		return c.reservation(old.machines, false), nil
	}
	base := Spec{}
	if ref := p.at("LaunchTemplate"); ref != nil {
		v, f := c.findVersion(ref)
		if f != nil {
			return nil, f
		}
		if base, f = readSpec(base, v.data); f != nil {
			return nil, f
		}
	}
	spec, failed := readSpec(base, p)
	if failed != nil {
		return nil, failed
	}
	made, failed := c.run(p, spec)
	if failed != nil {
		return nil, failed
	}
	c.remember(p, &remembered{machines: made})
	return c.reservation(made, true), nil
}

// run checks a RunInstances and carries it out.
func (c *Cloud) run(p *params, spec Spec) ([]*machine, *failure) {
	spec.API, spec.Token, spec.VolumeTags = "RunInstances", p.get("ClientToken"), p.tagsOf("volume")
	least, most := p.number("MinCount"), p.number("MaxCount")
	if least < 1 || most < least {
		return nil, fail("InvalidParameterValue", "MinCount %d and MaxCount %d are not valid", least, most)
	}
	subnetID := p.get("SubnetId")
	for _, n := range spec.Interfaces {
		if subnetID != "" && n.Subnet != subnetID {
			return nil, fail("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID may not be specified on the same request")
		}
		subnetID = n.Subnet
	}
	kind := p.get("InstanceType")
	if failed := c.check(spec, kind, subnetID); failed != nil {
		return nil, failed
	}
	if p.yes("DryRun") {
		return nil, dryRun()
	}
	subnet := c.subnets[subnetID]
	pool := Pool{Type: kind, Zone: subnet.Zone, Spot: p.get("InstanceMarketOptions.MarketType") == "spot"}
	n, why := c.room(pool, most, spec.MaxPrice)
	if n < least {
		return nil, why
	}
	return c.launch(n, pool, subnet, &spec, p.tagsOf("instance"))
}

// reservation answers RunInstances. A new instance is always pending in it.
func (c *Cloud) reservation(made []*machine, fresh bool) body {
	now := c.now()
	views := make([]view, len(made))
	for i, m := range made {
		views[i] = m.look(now)
		if fresh && views[i].is == running {
			views[i].is = pending
		}
	}
	return func(a *answer) {
		if len(views) > 0 {
			a.text("reservationId", views[0].reservation)
		}
		a.text("ownerId", Account)
		list(a, "instancesSet", views, a.instance)
	}
}
