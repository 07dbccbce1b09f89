package aws

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Census = (*Provider)(nil)

// Clusters implements cloud.Census. It asks with the permission that List needs.
func (p *Provider) Clusters(ctx context.Context) (map[string]int, error) {
	var live []string
	for _, s := range types.InstanceStateNameRunning.Values() {
		if s != types.InstanceStateNameTerminated {
			live = append(live, string(s))
		}
	}
	all, err := p.describe(ctx, []types.Filter{filter("tag-key", tagCluster), filter("instance-state-name", live...)})
	if err != nil {
		return nil, failure("census", fmt.Errorf("counting the instances of Burst in %s: %w", p.c.Region, err))
	}
	found := map[string]int{}
	for _, i := range all {
		found[i.Cluster]++
	}
	return found, nil
}
