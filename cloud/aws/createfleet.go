package aws

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

// fleetKinds are what an instant fleet tags.
var fleetKinds = []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeFleet}

// fleetRequest is the CreateFleet call of a launch.
//
// On-demand instances come from the offerings in the request's order: they
// cost the same whenever they are asked for, so the order is the site's wish. Only
// a reservation that the pool names comes before it.
// Spot instances come by EC2's price-capacity-optimized strategy, from the
// cheapest of those offerings that are least likely to be interrupted: only
// EC2 knows that, and an eviction costs more than the order is worth. A site
// that wants its order kept for spot too lists one type and zone to a pool.
func fleetRequest(r cloud.LaunchRequest, s spec) *ec2.CreateFleetInput {
	spot := r.Offering.Market == cloud.Spot
	overrides := make([]types.FleetLaunchTemplateOverridesRequest, 0, len(s.Targets))
	for i, to := range s.Targets {
		o := types.FleetLaunchTemplateOverridesRequest{
			InstanceType: types.InstanceType(to.Offering.Type),
			SubnetId:     optional(to.Subnet),
			Priority:     aws.Float64(float64(i)),
		}
		if to.Placement != "" {
			o.Placement = &types.Placement{GroupName: optional(to.Placement)}
		}
		if spot {
			o.MaxPrice, o.Priority = price(r.MaxPrice), nil
		}
		overrides = append(overrides, o)
	}
	in := &ec2.CreateFleetInput{
		Type:        types.FleetTypeInstant,
		ClientToken: aws.String(clientToken(r.Token)),
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateId: &s.Template.ID, Version: &s.Template.Version,
			},
			Overrides: overrides,
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity:       count(r.Count),
			DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: tagged(instanceTags(r), fleetKinds...),
	}
	var least *int32
	var single *bool
	if r.AllOrNothing {
		least, single = count(r.Count), aws.Bool(true)
	}
	if spot {
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{
			AllocationStrategy:           types.SpotAllocationStrategyPriceCapacityOptimized,
			InstanceInterruptionBehavior: types.SpotInstanceInterruptionBehaviorTerminate,
			MinTargetCapacity:            least, SingleInstanceType: single, SingleAvailabilityZone: single,
		}
		return in
	}
	in.OnDemandOptions = &types.OnDemandOptionsRequest{
		AllocationStrategy: types.FleetOnDemandAllocationStrategyPrioritized,
		MinTargetCapacity:  least, SingleInstanceType: single, SingleAvailabilityZone: single,
	}
	if s.Reservation != "" { // else the order would pass over what the site pays for anyway
		in.OnDemandOptions.CapacityReservationOptions = &types.CapacityReservationOptionsRequest{
			UsageStrategy: types.FleetCapacityReservationUsageStrategyUseCapacityReservationsFirst,
		}
	}
	return in
}

// createFleet launches by an instant fleet. The answer has ids without
// addresses; one look by token adds what EC2 shows by then, and List the rest.
// A repeat of the token is answered with the first fleet, whose instances may
// have ended since: the same look tells.
func (p *Provider) createFleet(ctx context.Context, r cloud.LaunchRequest, s spec) ([]cloud.Instance, error) {
	out, err := p.clients.ec2.CreateFleet(ctx, fleetRequest(r, s))
	if err != nil {
		return nil, p.refused(r, s, err)
	}
	shown, lerr := p.List(ctx, cloud.Filter{Cluster: r.Cluster, Tokens: []string{r.Token}})
	if lerr != nil {
		p.log.Debug("a fleet's instances could not be listed yet", "token", r.Token, "error", lerr)
	}
	got := live(merge(fleetInstances(out, r, s), shown))
	if len(got) >= r.Count {
		return got, nil
	}
	if lerr != nil && len(out.Instances) == 0 && len(out.Errors) == 0 {
		// A repeat's answer may leave the instances out: only List knows.
		return nil, lerr
	}
	return got, p.fleetErrors(out.Errors, r, s, len(got))
}

// fleetInstances are those of the answer: pending and without addresses.
func fleetInstances(out *ec2.CreateFleetOutput, r cloud.LaunchRequest, s spec) []cloud.Instance {
	var all []cloud.Instance
	now := time.Now() // the answer has no time; List's comes later
	for _, f := range out.Instances {
		o := cloud.Offering{Type: string(f.InstanceType), Zone: aws.ToString(f.AvailabilityZone), Market: r.Offering.Market}
		if to, ok := targetOf(f.LaunchTemplateAndOverrides, s); ok && o.Zone == "" {
			o.Zone = to.Zone
		}
		for _, id := range f.InstanceIds {
			all = append(all, cloud.Instance{ID: id, Token: r.Token, Cluster: r.Cluster, Pool: r.Pool, Offering: o, State: cloud.Pending, Launched: now})
		}
	}
	return all
}

// merge takes the instances as they are shown, and those not shown yet as
// they were answered.
func merge(answered, shown []cloud.Instance) []cloud.Instance {
	seen := map[string]bool{}
	for _, i := range shown {
		seen[i.ID] = true
	}
	for _, i := range answered {
		if !seen[i.ID] {
			shown = append(shown, i)
		}
	}
	return shown
}

// fleetErrors reads why a fleet is smaller than asked for: one error for each
// offering and code. The fleet is over, so each is Settled, and those that
// would leave a call's outcome open mean here that the offering gave nothing.
func (p *Provider) fleetErrors(all []types.CreateFleetError, r cloud.LaunchRequest, s spec, got int) error {
	type key struct {
		o    cloud.Offering
		code string
	}
	told := map[key]bool{}
	var errs []error
	for _, f := range all {
		e := codeFailure(opLaunch, aws.ToString(f.ErrorCode), aws.ToString(f.ErrorMessage))
		if to, ok := targetOf(f.LaunchTemplateAndOverrides, s); ok {
			e.Offering = to.Offering
		}
		e.Settled = true
		if e.Kind == cloud.Transient {
			e.Kind = cloud.Capacity
		}
		e = p.renew(e, r, s)
		if k := (key{e.Offering, e.Code}); !told[k] {
			told[k] = true
			errs = append(errs, e)
		}
	}
	if len(errs) == 0 {
		return short(r, s, got)
	}
	return errors.Join(errs...)
}

// targetOf finds the target that a fleet's answer is about.
func targetOf(l *types.LaunchTemplateAndOverridesResponse, s spec) (target, bool) {
	if l != nil && l.Overrides != nil {
		for _, to := range s.Targets {
			subnet, zone := aws.ToString(l.Overrides.SubnetId), aws.ToString(l.Overrides.AvailabilityZone)
			if to.Offering.Type == string(l.Overrides.InstanceType) && (subnet == to.Subnet || subnet == "" && (zone == "" || zone == to.Zone)) {
				return to, true
			}
		}
	}
	if len(s.Targets) == 1 {
		return s.Targets[0], true
	}
	return target{}, false
}
