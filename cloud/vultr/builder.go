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
// region does not have no node is launched of now.
func (p *Provider) BuilderType(ctx context.Context, n cloud.BuilderNeeds) (string, error) {
	var least plan
	var lacks error // why a plan cannot be bought; capacity, if one might be later
	for _, name := range n.Types {
		pl, err := p.plan(ctx, opImage, name)
		if err != nil {
			return "", err
		}
		if pl.metal {
			continue
		}
		_, err = p.regional(ctx, opImage, name)
		if kind := cloud.KindOf(err); kind == cloud.Capacity || kind == cloud.Invalid {
			if lacks == nil || kind == cloud.Capacity {
				lacks = err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		if least.ID == "" || pl.Disk < least.Disk {
			least = pl
		}
	}
	if least.ID == "" && lacks != nil {
		return "", lacks
	}
	if least.ID == "" {
		return "", invalid(opImage, "of %s none is cloud compute: Vultr makes no snapshots of bare metal", strings.Join(n.Types, ", "))
	}
	return least.ID, nil
}
