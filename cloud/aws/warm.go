package aws

import (
	"context"

	"github.com/burst-hpc/burst/cloud"
)

// Warm implements cloud.Warmer: what a launch needs is looked up, and
// placement groups and launch templates are made, so that Prepare makes no
// call while a job waits.
func (p *Provider) Warm(ctx context.Context, requests []cloud.LaunchRequest) []error {
	errs := make([]error, len(requests))
	known := p.lookUp(ctx, requests)
	specs := make([]*spec, len(requests))
	for i := range requests {
		if errs[i] = p.resolve(&requests[i], known); errs[i] == nil {
			specs[i], errs[i] = plan(&requests[i], p.c.Pools[requests[i].Pool], known, p.skipped)
		}
	}
	p.checkQuotas(ctx, requests, errs)
	for i := range requests {
		if errs[i] != nil {
			continue
		}
		specs[i].API = byRunInstances
		if p.c.Pools[requests[i].Pool].Fleet != "never" {
			specs[i].API = byCreateFleet
		}
	}
	p.finish(ctx, requests, specs, errs)
	return errs
}
