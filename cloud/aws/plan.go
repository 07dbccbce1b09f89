package aws

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cloud"
)

// plan makes the Spec of a request from what is known: all but the call.
func plan(r *cloud.LaunchRequest, pool Pool, k known, skipped func(pool string, err error)) (*spec, error) {
	s := &spec{machine: machine{
		Groups: pool.SecurityGroups, Key: pool.Key, Profile: pool.Profile,
		PublicIP: pool.PublicIP,
		Volumes:  volumes(pool.Root, k.devices[r.Image]),
	}}
	if r.Offering.Market != cloud.Spot { // EC2 refuses spot in a reservation
		s.Reservation = pool.Reservation
	}
	var usable []cloud.Offering
	var errs []error
	for _, o := range r.Offerings() {
		targets, err := targetsOf(o, pool.Subnets, k.zones)
		var h hardware
		if err == nil {
			h, err = hardwareOf(o, pool, k)
		}
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case len(usable) > 0 && !h.equal(s.hardware):
			errs = append(errs, about(o, "it differs from %s in cores or EFA cards, which one fleet cannot mix", usable[0].Type))
			continue
		}
		s.hardware = h
		s.Targets, usable = append(s.Targets, targets...), append(usable, o)
	}
	if len(usable) == 0 {
		return nil, errors.Join(errs...)
	}
	for _, err := range errs {
		skipped(r.Pool, err)
	}
	if pool.Placement == "cluster" {
		s.place(r.Cluster, r.Pool)
	}
	r.Offering, r.Or = usable[0], slices.Clip(usable[1:])
	return s, nil
}

// place puts each target into the pool's placement group of its zone: a cluster
// placement group cannot span zones, so one for all of a pool would refuse
// every zone but that of its first instance.
func (s *spec) place(cluster, pool string) {
	for i := range s.Targets {
		s.Targets[i].Placement = sharedName(cluster, pool+"-"+s.Targets[i].Zone)
	}
	if groups := s.groups(); len(groups) == 1 {
		s.Placement = groups[0]
		for i := range s.Targets {
			s.Targets[i].Placement = ""
		}
	}
}

// targetsOf lists the subnets that serve an offering: the first of its zone,
// or, if it names none, the first of each zone, in the order written.
func targetsOf(o cloud.Offering, subnets []string, zones map[string]string) ([]target, error) {
	var targets []target
	var have, lost []string
	for _, s := range subnets {
		zone, ok := zones[s]
		switch {
		case !ok:
			lost = append(lost, s)
		case !slices.Contains(have, zone):
			have = append(have, zone)
			if o.Zone == "" || o.Zone == zone {
				targets = append(targets, target{Offering: o, Subnet: s, Zone: zone})
			}
		}
	}
	switch {
	case len(targets) > 0:
		return targets, nil
	case len(lost) > 0:
		return nil, about(o, "subnets %s do not exist in this account and region", strings.Join(lost, ", "))
	case len(subnets) == 0:
		return nil, about(o, "the pool names no subnet")
	}
	return nil, about(o, "no subnet of the pool is in zone %s: they are in %s", o.Zone, strings.Join(have, ", "))
}

// hardwareOf says what a request for the offering's type must name.
func hardwareOf(o cloud.Offering, pool Pool, k known) (hardware, error) {
	var h hardware
	if !pool.EFA && pool.ThreadsPerCore == 0 {
		return h, nil
	}
	if k.typesErr != nil {
		return h, failure(opPrepare, fmt.Errorf("looking up type %s: %w", o.Type, k.typesErr))
	}
	t, ok := k.types[o.Type]
	if !ok {
		return h, about(o, "EC2 knows no such type in this region")
	}
	if pool.EFA {
		if !t.efa {
			return h, about(o, "the type has no EFA: take efa out of the pool, or the type")
		}
		if pool.PublicIP && len(t.cards) > 1 {
			return h, about(o, "EC2 gives no public address to instances with several network interfaces: take public_ip or efa out of the pool")
		}
		h.Cards = t.cards
	}
	if n := pool.ThreadsPerCore; n > 0 && n != t.threads {
		if n > t.threads {
			return h, about(o, "the type has %d thread per core, not %d", t.threads, n)
		}
		h.Cores, h.Threads = t.cores, n
	}
	return h, nil
}

func about(o cloud.Offering, format string, args ...any) *cloud.Error {
	e := invalid(opPrepare, "%s: %s", o, fmt.Sprintf(format, args...))
	e.Offering = o
	return e
}

// volumes are the root volume as the pool wants it, and those that the image
// would keep after the instance.
func volumes(root Root, i image) []volume {
	var all []volume
	if i.root != "" {
		all = append(all, volume{Device: i.root, Root: root})
	}
	for _, device := range i.kept {
		all = append(all, volume{Device: device})
	}
	return all
}
