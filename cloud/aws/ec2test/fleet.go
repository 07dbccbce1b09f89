package ec2test

import (
	"maps"
	"slices"
	"strings"
)

// fleet is the answer of a CreateFleet.
type fleet struct {
	id     string
	given  []portion
	errors []portionError
}

// option is one override: a pool in a subnet.
type option struct {
	pool     Pool
	subnet   *Subnet
	subnetID string
	maxPrice string
	priority string
	template *version
	room     int
	why      *failure
}

type portion struct {
	*option
	machines []*machine
}

type portionError struct {
	*option
	why *failure
}

// target is what a CreateFleet wants.
type target struct {
	total, least        int
	oneType, oneZone    bool
	spot                bool
	strategy            string
	defaultType, prefix string
}

func readTarget(p *params) (target, *failure) {
	t := target{defaultType: p.get("TargetCapacitySpecification.DefaultTargetCapacityType"), total: p.number("TargetCapacitySpecification.TotalTargetCapacity")}
	t.spot = t.defaultType == "spot" || p.number("TargetCapacitySpecification.SpotTargetCapacity") == t.total && t.defaultType == ""
	t.prefix = "OnDemandOptions."
	if t.spot {
		t.prefix = "SpotOptions."
	}
	t.least = p.number(t.prefix + "MinTargetCapacity")
	t.oneType, t.oneZone = p.yes(t.prefix+"SingleInstanceType"), p.yes(t.prefix+"SingleAvailabilityZone")
	t.strategy = p.get(t.prefix + "AllocationStrategy")
	switch {
	case p.get("Type") != "instant":
		return t, fail("InvalidParameterValue", "this cloud has fleets of type instant only")
	case t.total < 1:
		return t, fail("InvalidParameterValue", "TotalTargetCapacity %d is not valid", t.total)
	case t.least > 0 && !t.oneType && !t.oneZone:
		return t, fail("InvalidParameterCombination", "MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone")
	case t.least > t.total:
		return t, fail("InvalidParameterValue", "MinTargetCapacity %d is more than the target", t.least)
	}
	return t, nil
}

func (c *Cloud) createFleet(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, failed := c.recall(p)
	if failed != nil {
		return nil, failed
	}
	if old != nil {
		return old.fleet.answer, nil
	}
	t, failed := readTarget(p)
	if failed != nil {
		return nil, failed
	}
	options, failed := c.options(p, t)
	if failed != nil {
		return nil, failed
	}
	f := &fleet{id: c.id("fleet")}
	for _, o := range choose(options, t, f) {
		c.fill(f, o, p, t)
	}
	c.remember(p, &remembered{fleet: f})
	return f.answer, nil
}

// options are the fleet's overrides, each with its room, in the order in which
// they are to be used.
func (c *Cloud) options(p *params, t target) ([]*option, *failure) {
	var all []*option
	for _, config := range p.list("LaunchTemplateConfigs") {
		v, failed := c.findVersion(config.at("LaunchTemplateSpecification"))
		if failed != nil {
			return nil, failed
		}
		for _, over := range config.list("Overrides") {
			o := &option{subnetID: over.get("SubnetId"), maxPrice: over.get("MaxPrice"), priority: over.get("Priority"), template: v}
			o.subnet = c.subnets[o.subnetID]
			if o.subnet == nil {
				return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", o.subnetID)
			}
			o.pool = Pool{Type: over.get("InstanceType"), Zone: o.subnet.Zone, Spot: t.spot}
			spec, failed := readSpec(Spec{}, v.data)
			if failed == nil {
				failed = c.check(spec, o.pool.Type, o.subnetID)
			}
			if failed != nil {
				o.why = failed
			} else {
				o.room, o.why = c.room(o.pool, t.total, o.maxPrice)
			}
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil, fail("MissingParameter", "LaunchTemplateConfigs has no overrides")
	}
	slices.SortStableFunc(all, func(x, y *option) int {
		if strings.Contains(t.strategy, "prioritized") {
			return strings.Compare(x.priority, y.priority)
		}
		return int(1e6 * (c.types[x.pool.Type].Price - c.types[y.pool.Type].Price))
	})
	return all, nil
}

// choose picks the options that the fleet may use, and notes the errors of
// those that lack: all of them where one type or zone must do and none can.
func choose(options []*option, t target, f *fleet) []*option {
	key := func(o *option) string {
		k := ""
		if t.oneType {
			k += o.pool.Type
		}
		if t.oneZone {
			k += "/" + o.pool.Zone
		}
		return k
	}
	best, bestRoom := "", -1
	for _, o := range options {
		room := 0
		for _, other := range options {
			if key(other) == key(o) {
				room += other.room
			}
		}
		if room = min(room, t.total); room > bestRoom {
			best, bestRoom = key(o), room
		}
	}
	if bestRoom < max(t.least, 1) {
		for _, o := range options {
			if o.why != nil {
				f.errors = append(f.errors, portionError{o, o.why})
			}
		}
		return nil
	}
	return slices.DeleteFunc(options, func(o *option) bool { return key(o) != best })
}

// fill launches what is still lacking from one option.
func (c *Cloud) fill(f *fleet, o *option, p *params, t target) {
	lacking := t.total
	for _, g := range f.given {
		lacking -= len(g.machines)
	}
	if lacking == 0 {
		return
	}
	// What an option before this one took counts for the quota.
	n, why := o.room, o.why
	if n > 0 {
		n, why = c.room(o.pool, lacking, o.maxPrice)
	}
	if n > 0 {
		spec, _ := readSpec(Spec{}, o.template.data) // options has read it
		spec.API, spec.Token, spec.MaxPrice, spec.Template = "CreateFleet", p.get("ClientToken"), o.maxPrice, o.template.ref()
		spec.VolumeTags = p.tagsOf("volume")
		tags := maps.Clone(o.template.tags("instance"))
		maps.Copy(tags, p.tagsOf("instance"))
		tags["aws:ec2:fleet-id"] = f.id
		made, failed := c.launch(n, o.pool, o.subnet, &spec, tags)
		if failed != nil {
			why = failed
		}
		f.given = append(f.given, portion{o, made})
		n = len(made)
	}
	if n < lacking && why != nil {
		f.errors = append(f.errors, portionError{o, why})
	}
}

func (f *fleet) answer(a *answer) {
	a.text("fleetId", f.id)
	list(a, "errorSet", f.errors, func(e portionError) {
		e.show(a)
		a.text("errorCode", e.why.code)
		a.text("errorMessage", e.why.message)
	})
	list(a, "fleetInstanceSet", f.given, func(g portion) {
		g.show(a)
		a.text("instanceType", g.pool.Type)
		a.in("instanceIds", func() {
			for _, m := range g.machines {
				a.text("item", m.id)
			}
		})
	})
}

// show names the option as both lists of an answer do.
func (o *option) show(a *answer) {
	a.in("launchTemplateAndOverrides", func() {
		a.in("launchTemplateSpecification", func() {
			a.text("launchTemplateId", o.template.of.id)
			a.number("version", o.template.number)
		})
		a.in("overrides", func() {
			a.text("instanceType", o.pool.Type)
			a.text("subnetId", o.subnetID)
			a.text("maxPrice", o.maxPrice)
		})
	})
	lifecycle := "on-demand"
	if o.pool.Spot {
		lifecycle = "spot"
	}
	a.text("lifecycle", lifecycle)
}
