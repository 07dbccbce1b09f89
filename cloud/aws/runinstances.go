package aws

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

// runRequest is the RunInstances call of a launch, from its first target.
func runRequest(r cloud.LaunchRequest, s spec) (*ec2.RunInstancesInput, error) {
	to := s.Targets[0]
	in, err := runInput(s.data(r))
	if err != nil {
		return nil, err
	}
	in.ClientToken = aws.String(clientToken(r.Token))
	in.InstanceType = types.InstanceType(to.Offering.Type)
	in.MinCount, in.MaxCount = aws.Int32(1), aws.Int32(int32(r.Count))
	if r.AllOrNothing {
		in.MinCount = in.MaxCount
	}
	if len(in.NetworkInterfaces) == 0 {
		in.SubnetId = optional(to.Subnet)
	}
	if to.Placement != "" {
		in.Placement = &types.Placement{GroupName: &to.Placement}
	}
	for i := range in.NetworkInterfaces {
		in.NetworkInterfaces[i].SubnetId = optional(to.Subnet)
	}
	kinds := []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume}
	if to.Offering.Market == cloud.Spot {
		kinds = append(kinds, types.ResourceTypeSpotInstancesRequest)
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{
			MarketType: types.MarketTypeSpot,
			SpotOptions: &types.SpotMarketOptions{
				SpotInstanceType:             types.SpotInstanceTypeOneTime,
				InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
				MaxPrice:                     price(r.MaxPrice),
			},
		}
	}
	in.TagSpecifications = tagged(instanceTags(r), kinds...)
	return in, nil
}

// runInstances launches by RunInstances, which answers with the addresses.
func (p *Provider) runInstances(ctx context.Context, r cloud.LaunchRequest, s spec) ([]cloud.Instance, error) {
	in, err := runRequest(r, s)
	if err != nil {
		return nil, err
	}
	out, err := p.clients.ec2.RunInstances(ctx, in)
	if isCode(err, "IdempotentInstanceTerminated") {
		// A repeat, after some of the first call's instances have ended: the others
		// are long visible.
		got, lerr := p.List(ctx, cloud.Filter{Cluster: r.Cluster, Tokens: []string{r.Token}})
		if lerr != nil {
			return nil, lerr
		}
		if got = live(got); len(got) < r.Count {
			return got, p.refused(r, s, err)
		}
		return got, nil
	}
	if err != nil {
		return nil, p.refused(r, s, err)
	}
	got := make([]cloud.Instance, 0, len(out.Instances))
	var why error
	for _, i := range out.Instances {
		one := instance(i)
		// The tags of the answer may be incomplete; the request's are what was asked.
		one.Token, one.Cluster, one.Pool = r.Token, r.Cluster, r.Pool
		if one.Offering.Zone == "" {
			one.Offering.Zone = s.Targets[0].Zone
		}
		if one.Why != "" {
			why = fmt.Errorf("instance %s is %s: %s", one.ID, one.State, one.Why)
		}
		got = append(got, one)
	}
	if got = live(got); len(got) < r.Count {
		e := short(r, s, len(got))
		if why != nil {
			e.Err = fmt.Errorf("%w: %w", e.Err, why)
		}
		return got, e
	}
	return got, nil
}
