package vultr

import (
	"context"
	"strings"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.BuilderChooser = (*Provider)(nil)

// BuilderType implements cloud.BuilderChooser. Of a snapshot Vultr launches only plans whose
// disks are as large as the one that it was made of, or larger: so it is made on the plan with the
// smallest, of equal ones the first. Of bare metal there are no snapshots, and plans that the
// region does not have no node is launched of.
func (p *Provider) BuilderType(ctx context.Context, n cloud.BuilderNeeds) (string, error) {
	var least plan
	for _, name := range n.Types {
		pl, err := p.plan(ctx, opImage, name)
		if err != nil {
			return "", err
		}
		if _, err := p.regional(ctx, opImage, name); err != nil || pl.metal {
			continue
		}
		if least.ID == "" || pl.Disk < least.Disk {
			least = pl
		}
	}
	if least.ID == "" {
		return "", invalid(opImage, "of %s none is cloud compute that %s has: Vultr makes no snapshots of bare metal", strings.Join(n.Types, ", "), p.c.Region)
	}
	return least.ID, nil
}
