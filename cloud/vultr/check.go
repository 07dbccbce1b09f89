package vultr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

// Level says how good a finding is.
type Level string

const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // works now, or later, but not as well as it might
	LevelWrong   Level = "wrong"   // launches fail until it is mended
	LevelUnknown Level = "unknown" // could not be told
)

// Finding is one line of a check.
type Finding struct {
	Level         Level
	Subject, Text string
}

// CheckPool is what Check is told of a pool, beside its Pool.
type CheckPool struct {
	Name  string
	Plans []string
	Image string
}

const opCheck = "check"

// Check asks Vultr whether the pools can be launched as they are. It changes
// nothing: a public key that the account lacks is not given to it.
func (p *Provider) Check(ctx context.Context, pools []CheckPool) []Finding {
	a, err := p.account(ctx)
	var all []Finding
	switch {
	case forbidden(err): // it may launch all the same
		all = []Finding{{LevelUnknown, "account", brief(err)}}
	case err != nil:
		return []Finding{finding("account", "", err)}
	default:
		all = append([]Finding{{LevelOK, "account", p.nameOf(a)}}, rights(a.ACL)...)
	}
	if off := p.clock.off(); off != "" {
		all = append(all, Finding{LevelWarning, "clock", off})
	}
	for _, pool := range pools {
		subject := "pool " + pool.Name
		settings := p.c.Pools[pool.Name]
		for _, name := range pool.Plans {
			all = append(all, p.checkPlan(ctx, subject+", plan "+name, name, settings))
		}
		var s spec
		err := p.resolve(ctx, opCheck, pool.Image, &s)
		all = append(all, finding(subject+", image", pool.Image+s.imageID(), err))
		if len(settings.SSHKeys) > 0 || settings.SSHPublicKey != "" {
			all = append(all, p.checkKeys(ctx, subject+", SSH keys", settings))
		}
		things := map[string]func(context.Context) (string, error){}
		if settings.VPC != "" {
			things["vpc"] = func(ctx context.Context) (string, error) { return p.checkVPC(ctx, settings.VPC) }
		}
		if id := settings.FirewallGroup; id != "" {
			things["firewall_group"] = func(ctx context.Context) (string, error) { return p.checkFirewall(ctx, id) }
		}
		if id := settings.StartupScript; id != "" {
			things["startup_script"] = func(ctx context.Context) (string, error) { return p.checkScript(ctx, id) }
		}
		for _, key := range slices.Sorted(maps.Keys(things)) {
			text, err := things[key](ctx)
			all = append(all, finding(subject+", "+key, text, err))
		}
	}
	return all
}

// finding reads what came of asking for something.
func finding(subject, text string, err error) Finding {
	switch {
	case err == nil:
		return Finding{LevelOK, subject, text}
	case notFound(err):
		return Finding{LevelWrong, subject, "the account has no such thing: " + brief(err)}
	case cloud.KindOf(err) == cloud.Invalid, cloud.KindOf(err) == cloud.Auth && refused(err):
		return Finding{LevelWrong, subject, brief(err)}
	}
	return Finding{LevelUnknown, subject, brief(err)} // no answer, or no key for this user
}

// brief leaves the error's operation and kind out: the finding says them.
func brief(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

func (p *Provider) checkPlan(ctx context.Context, subject, name string, settings Pool) Finding {
	plan, err := p.regional(ctx, opCheck, name)
	if err == nil {
		err = fits(opCheck, plan, settings)
	}
	if cloud.KindOf(err) == cloud.Capacity {
		return Finding{LevelWarning, subject, brief(err) + "; if that lasts, take another plan, or a provider of another region"}
	}
	if err != nil {
		return finding(subject, "", err)
	}
	have, err := p.available(ctx, opCheck, plan)
	switch {
	case err != nil:
		return finding(subject, "", err)
	case len(have) > 0 && !have[name]:
		return Finding{LevelWarning, subject, fmt.Sprintf("none is left in %s now", p.c.Region)}
	}
	return Finding{LevelOK, subject, fmt.Sprintf("%s has it, at %.3f USD per begun hour", p.c.Region, plan.price(p.c.Region).Hourly)}
}

func (p *Provider) checkKeys(ctx context.Context, subject string, settings Pool) Finding {
	have, err := p.listKeys(ctx, opCheck)
	if err != nil {
		return finding(subject, "", err)
	}
	ids, missing, err := keysIn(have, opCheck, settings)
	if err == nil && missing != nil {
		return Finding{LevelOK, subject, fmt.Sprintf("%s will be given to the account by the first launch", missing.fingerprint())}
	}
	return finding(subject, fmt.Sprintf("the account has %d of %[1]d", len(ids)), err)
}

func (p *Provider) checkVPC(ctx context.Context, id string) (string, error) {
	var v *govultr.VPC
	err := call(ctx, opCheck, "asking for VPC "+id, func(ctx context.Context) (err error) {
		if v, _, err = p.api.VPC.Get(ctx, id); err == nil && v == nil {
			err = errors.New("it is no VPC")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if v.Region != p.c.Region {
		return "", invalid(opCheck, "VPC %s is in %s, and the provider in %s", id, v.Region, p.c.Region)
	}
	return fmt.Sprintf("%s/%d in %s", v.V4Subnet, v.V4SubnetMask, v.Region), nil
}

func (p *Provider) checkFirewall(ctx context.Context, id string) (string, error) {
	var g *govultr.FirewallGroup
	err := call(ctx, opCheck, "asking for firewall group "+id, func(ctx context.Context) (err error) {
		if g, _, err = p.api.FirewallGroup.Get(ctx, id); err == nil && g == nil {
			err = errors.New("it is no firewall group")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%q, %d rules", g.Description, g.RuleCount), nil
}

func (p *Provider) checkScript(ctx context.Context, id string) (string, error) {
	var s *govultr.StartupScript
	err := call(ctx, opCheck, "asking for startup script "+id, func(ctx context.Context) (err error) {
		if s, _, err = p.api.StartupScript.Get(ctx, id); err == nil && s == nil {
			err = errors.New("it is no startup script")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%q", s.Name), nil
}
