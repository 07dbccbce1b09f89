package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/burst-hpc/burst/cloud"
)

const opLaunch = "launch"

// Launch implements cloud.Provider. What it sends is in the request and its
// Spec alone, and the launch's token is EC2's ClientToken, so that EC2 itself
// answers a repeat with the instances of the first call, whoever asks and
// however soon. We do not look for instances by their tags before a call: it
// would cost every launch a call more, and prove nothing, as EC2 may show new
// instances late. Emulators that ignore ClientToken launch again.
//
// A request without a Spec is prepared first, by the call that does not
// depend on how much has been launched before.
func (p *Provider) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	if len(r.Spec) == 0 {
		one := []cloud.LaunchRequest{r}
		if err := p.prepare(ctx, one, false)[0]; err != nil {
			return nil, err
		}
		r = one[0]
	}
	var s spec
	if err := json.Unmarshal(r.Spec, &s); err != nil || len(s.Targets) == 0 {
		return nil, invalid(opLaunch, "the settings of launch %s cannot be read: %v", r.Token, err)
	}
	var got []cloud.Instance
	var err error
	switch {
	case s.API == byRunInstances:
		got, err = p.runInstances(ctx, r, s)
	case s.API == byCreateFleet && s.Template != nil:
		got, err = p.createFleet(ctx, r, s)
	default:
		return nil, invalid(opLaunch, "the settings of launch %s name the call %q", r.Token, s.API)
	}
	if r.AllOrNothing && len(got) > 0 && len(got) < r.Count {
		return p.undo(ctx, got, err)
	}
	return got, err
}

// undo ends a partial launch that was to be all or nothing. What cannot be
// ended now is returned, for the engine to end: also what EC2 does not know, as it
// may just not know it yet. The error tells the rest.
func (p *Provider) undo(ctx context.Context, got []cloud.Instance, why error) ([]cloud.Instance, error) {
	if _, err := p.clients.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids(got)}); err != nil {
		return got, why
	}
	for i := range got {
		got[i].State = cloud.Terminating
	}
	if e := (*cloud.Error)(nil); errors.As(why, &e) {
		e.TakenBack = got
	}
	return nil, why
}

// refused reads the error of a call that launches.
func (p *Provider) refused(r cloud.LaunchRequest, s spec, err error) *cloud.Error {
	e := callError(opLaunch, fmt.Errorf("%s of %d × %s in pool %s: %w", s.API, r.Count, s.Targets[0].Offering, r.Pool, err))
	switch e.Kind {
	case cloud.Capacity, cloud.Quota, cloud.Invalid:
		e.Settled = true
	}
	if e.Kind == cloud.Capacity && len(s.Targets) == 1 {
		e.Offering = s.Targets[0].Offering
	}
	return p.renew(e, r, s)
}

// renew makes a removed template or placement group an error after which the
// next round makes it anew, and launches under a new token after a short pause.
func (p *Provider) renew(e *cloud.Error, r cloud.LaunchRequest, s spec) *cloud.Error {
	if stale[bare(e.Code)] {
		e.Kind, e.Settled = cloud.Throttled, true
		p.templates.forget(sharedName(r.Cluster, r.Pool))
		for _, name := range s.groups() {
			p.placements.forget(name)
		}
	}
	return e
}

// stale codes are about templates and placement groups that are there no more.
var stale = map[string]bool{
	"InvalidLaunchTemplateId.NotFound":                 true,
	"InvalidLaunchTemplateId.VersionNotFound":          true,
	"InvalidLaunchTemplateName.NotFoundException":      true,
	"InvalidLaunchTemplateId.VersionNotFoundException": true,
	"InvalidLaunchTemplateVersion.NotFound":            true,
	"InvalidPlacementGroup.Unknown":                    true,
}

// short is the error of a launch that gave fewer than were asked for, where
// EC2 says no more.
func short(r cloud.LaunchRequest, s spec, got int) *cloud.Error {
	e := &cloud.Error{
		Kind: cloud.Capacity, Op: opLaunch, Settled: true,
		Err: fmt.Errorf("%s gave %d of %d × %s in pool %s", s.API, got, r.Count, s.Targets[0].Offering, r.Pool),
	}
	if len(s.Targets) == 1 || s.API == byRunInstances {
		e.Offering = s.Targets[0].Offering
	}
	return e
}

func ids(instances []cloud.Instance) []string {
	all := make([]string, len(instances))
	for i, one := range instances {
		all[i] = one.ID
	}
	return all
}

func live(instances []cloud.Instance) []cloud.Instance {
	return slices.DeleteFunc(instances, func(i cloud.Instance) bool { return !i.State.Live() })
}

// price is USD per hour as EC2 reads it; nil: no limit but on-demand's.
func price(usd float64) *string {
	if usd <= 0 {
		return nil
	}
	return optional(strconv.FormatFloat(usd, 'f', -1, 64))
}
