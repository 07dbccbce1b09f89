package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.BuilderChooser = (*Provider)(nil)

// BuilderType implements cloud.BuilderChooser. The console of a type on Xen shows what was
// printed around its boot, and nothing more until it is stopped or ended: the end of a setup that takes
// minutes would never be seen there. All others are on Nitro.
func (p *Provider) BuilderType(ctx context.Context, n cloud.BuilderNeeds) (string, error) {
	if !n.Console {
		return n.Types[0], nil
	}
	var old []string
	pages := ec2.NewDescribeInstanceTypesPaginator(p.clients.ec2, &ec2.DescribeInstanceTypesInput{
		Filters: []types.Filter{{Name: aws.String("instance-type"), Values: n.Types}},
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return "", failure(opImage, fmt.Errorf("asking whether the instance types show their consoles: %w", err))
		}
		for _, info := range out.InstanceTypes {
			if info.Hypervisor == types.InstanceTypeHypervisorXen {
				old = append(old, string(info.InstanceType))
			}
		}
	}
	for _, name := range n.Types {
		if !slices.Contains(old, name) {
			return name, nil
		}
	}
	return "", invalid(opImage, "the console of %s does not show the end of the setup while the instance runs, as it is not on Nitro: add a type of a newer generation, or have the pool set up over SSH", strings.Join(n.Types, ", "))
}
