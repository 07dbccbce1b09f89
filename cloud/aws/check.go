package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/burst-hpc/burst/cloud"
)

// CheckPool is what Check is told of a pool beside its launch settings, which
// the provider's Config has.
type CheckPool struct {
	Name      string
	Offerings []cloud.Offering
	Image     string
	Nodes     int // how many there may be at once
}

// Level says how good a finding is.
type Level string

const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // works, but not as well or as far as it might
	LevelWrong   Level = "wrong"   // launches fail until it is mended
	LevelUnknown Level = "unknown" // could not be told
)

// Finding is one line of a check: what was looked at, what is the case, and
// what to do about it.
type Finding struct {
	Level   Level  `json:"level"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`
}

// findings are a report that grows.
type findings []Finding

func (f *findings) add(level Level, subject, text, hint string) {
	*f = append(*f, Finding{level, subject, text, hint})
}

func (f *findings) ok(subject, format string, args ...any) {
	f.add(LevelOK, subject, fmt.Sprintf(format, args...), "")
}

// failed adds what could not be looked at, or is not there.
func (f *findings) failed(subject string, err error) {
	level := LevelWrong
	switch cloud.KindOf(err) {
	case cloud.Throttled, cloud.Transient, cloud.Auth:
		level = LevelUnknown // the lines on permissions say whether it must be mended
	}
	f.add(level, subject, brief(err), "")
}

// Check looks at all that launches of the pools need, and says per line what
// is the case and what to do. It changes nothing: permissions are tried by
// EC2's DryRun, with the tag of the cluster's id, as a good policy asks for it;
// empty where the id is not known: then a refusal proves nothing. What depends on
// a step that failed is left out.
func (p *Provider) Check(ctx context.Context, cluster string, pools []CheckPool) []Finding {
	var all findings
	if !p.checkIdentity(ctx, &all) {
		return all
	}
	dryRun, reachable := p.checkEndpoints(ctx, &all, pools)
	if !reachable {
		return all
	}
	as := tryAs{dryRun: dryRun, cluster: cluster}
	p.checkPermissions(ctx, &all, pools, as)
	p.checkQueue(ctx, &all)
	for _, pool := range pools {
		p.checkPool(ctx, &all, pool, as)
	}
	return all
}

// needs is what the pools make use of, and so what must be allowed.
type needs struct {
	spot, placement bool
}

func (p *Provider) needsOf(pools []CheckPool) needs {
	var n needs
	for _, pool := range pools {
		settings := p.c.Pools[pool.Name]
		n.spot = n.spot || slices.ContainsFunc(pool.Offerings, func(o cloud.Offering) bool { return o.Market == cloud.Spot })
		n.placement = n.placement || settings.Placement != ""
	}
	return n
}
