package ec2test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// known are the filters of DescribeInstances.
var known = []string{
	"instance-id", "instance-state-name", "client-token", "instance-lifecycle", "availability-zone", "instance-type",
	"subnet-id", "vpc-id", "image-id", "placement-group-name", "reservation-id", "private-ip-address",
}

func (v view) passes(f filters) bool {
	for name := range f {
		value := ""
		switch name {
		case "instance-id":
			value = v.id
		case "instance-state-name":
			value = stateNames[v.is]
		case "client-token":
			value = v.spec.Token
		case "instance-lifecycle":
			if v.pool.Spot {
				value = "spot"
			}
		case "availability-zone":
			value = v.pool.Zone
		case "instance-type":
			value = v.pool.Type
		case "subnet-id":
			value = v.subnet.ID
		case "vpc-id":
			value = v.subnet.VPC
		case "image-id":
			value = v.spec.Image
		case "placement-group-name":
			value = v.spec.Placement
		case "reservation-id":
			value = v.reservation
		case "private-ip-address":
			value = v.known
		default:
			continue // a tag
		}
		if !f.match(name, value) {
			return false
		}
	}
	return f.matchTags(v.tags)
}

// describeInstances shows pages of instances, in the order of their launch. A
// reservation that does not fit a page goes on in the next.
func (c *Cloud) describeInstances(p *params) (body, *failure) {
	f, failed := readFilters(p, known...)
	if failed != nil {
		return nil, failed
	}
	ids := p.strings("InstanceId")
	size := c.o.PageSize
	if n := p.number("MaxResults"); n != 0 {
		if len(ids) > 0 {
			return nil, fail("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
		}
		if n < 5 || n > 1000 {
			return nil, fail("InvalidParameterValue", "Value (%d) for parameter maxResults is invalid. Expecting a value between 5 and 1000", n)
		}
		size = min(size, n)
	}
	after := 0
	if token := p.get("NextToken"); token != "" {
		text, err := base64.StdEncoding.DecodeString(token)
		if err == nil {
			after, err = strconv.Atoi(string(text))
		}
		if err != nil {
			return nil, fail("InvalidParameterValue", "Unable to parse pagination token")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.settle(now)
	from := c.machines
	if len(ids) > 0 {
		var bad []string
		if from, bad = c.find(ids); len(bad) == 0 {
			for _, m := range from {
				if now.Before(m.shown) {
					bad = append(bad, m.id)
				}
			}
		}
		if len(bad) > 0 {
			return nil, notFound(bad)
		}
		size = len(ids)
	}
	var views []view
	next := ""
	for _, m := range from {
		if m.serial <= after || now.Before(m.shown) {
			continue
		}
		v := m.look(now)
		if !v.passes(f) {
			continue
		}
		if len(views) == size {
			next = base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(views[size-1].serial)))
			break
		}
		views = append(views, v)
	}
	return func(a *answer) {
		a.reservations(views)
		a.text("nextToken", next)
	}, nil
}

func (a *answer) reservations(views []view) {
	a.open("reservationSet")
	for len(views) > 0 {
		n := 1
		for n < len(views) && views[n].reservation == views[0].reservation {
			n++
		}
		a.in("item", func() {
			a.text("reservationId", views[0].reservation)
			a.text("ownerId", Account)
			list(a, "instancesSet", views[:n], a.instance)
		})
		views = views[n:]
	}
	a.close("reservationSet")
}

// find looks ids up. Called with the lock held.
func (c *Cloud) find(ids []string) (found []*machine, bad []string) {
	for _, id := range ids {
		if m := c.byID[id]; m != nil {
			found = append(found, m)
		} else {
			bad = append(bad, id)
		}
	}
	return found, bad
}

func notFound(ids []string) *failure {
	if len(ids) == 1 {
		return fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", ids[0])
	}
	return fail("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(ids, ", "))
}

// terminateInstances ends all that it names, or none. It knows instances
// before Describe shows them.
func (c *Cloud) terminateInstances(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, bad := c.find(p.strings("InstanceId"))
	if len(bad) > 0 {
		return nil, notFound(bad)
	}
	now := c.now()
	type step struct {
		id       string
		from, to state
	}
	var steps []step
	for _, m := range found {
		s := step{id: m.id, from: m.state(now)}
		c.finish(m, now, c.o.Shutdown, "Client.UserInitiatedShutdown")
		s.to = m.state(now)
		steps = append(steps, s)
	}
	return func(a *answer) {
		list(a, "instancesSet", steps, func(s step) {
			a.text("instanceId", s.id)
			for name, is := range map[string]state{"currentState": s.to, "previousState": s.from} {
				a.in(name, func() {
					a.number("code", int(is))
					a.text("name", stateNames[is])
				})
			}
		})
	}, nil
}

func (c *Cloud) consoleOutput(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := p.get("InstanceId")
	m := c.byID[id]
	if m == nil {
		return nil, notFound([]string{id})
	}
	text := ""
	if m.state(c.now()) != pending {
		text = fmt.Sprintf("booting %s\ncloud-init finished\n", id)
	}
	return func(a *answer) {
		a.text("instanceId", id)
		a.text("output", base64.StdEncoding.EncodeToString([]byte(text)))
	}, nil
}

// createTags tags instances; templates and groups have theirs from birth.
func (c *Cloud) createTags(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, bad := c.find(p.strings("ResourceId"))
	if len(bad) > 0 {
		return nil, notFound(bad)
	}
	for _, m := range found {
		tags := maps.Clone(m.tags)
		maps.Copy(tags, p.tags("Tag"))
		if len(tags) > 50+len(awsTags(tags)) {
			return nil, fail("TagLimitExceeded", "More than 50 tags on %s", m.id)
		}
		m.tags = tags
	}
	return func(a *answer) { a.yes("return", true) }, nil
}

func awsTags(tags map[string]string) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(tags)), func(k string) bool { return !strings.HasPrefix(k, "aws:") })
}

func (c *Cloud) describeTags(p *params) (body, *failure) {
	f, failed := readFilters(p, "resource-id", "resource-type", "key", "value")
	if failed != nil {
		return nil, failed
	}
	type tag struct{ id, key, value string }
	var all []tag
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		for _, k := range slices.Sorted(maps.Keys(m.tags)) {
			if f.match("resource-id", m.id) && f.match("resource-type", "instance") && f.match("key", k) && f.match("value", m.tags[k]) {
				all = append(all, tag{m.id, k, m.tags[k]})
			}
		}
	}
	return func(a *answer) {
		list(a, "tagSet", all, func(t tag) {
			a.text("resourceId", t.id)
			a.text("resourceType", "instance")
			a.text("key", t.key)
			a.text("value", t.value)
		})
	}, nil
}
