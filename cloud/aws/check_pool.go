package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/burst-hpc/burst/cloud"
)

// checkPool looks at one pool: image, types, network, quotas, and at last the
// launch itself, by DryRun.
func (p *Provider) checkPool(ctx context.Context, all *findings, pool CheckPool, as tryAs) {
	subject := "pool " + pool.Name
	settings, ok := p.c.Pools[pool.Name]
	if !ok {
		all.add(LevelWrong, subject, fmt.Sprintf("provider %q has no settings for it", p.c.Name), "")
		return
	}
	known := p.checkTypes(ctx, all, pool)
	p.checkImage(ctx, all, pool, known)
	zones := p.checkNetwork(ctx, all, pool, settings)
	p.checkZones(ctx, all, pool, known, zones)
	checkHardware(all, pool, settings, known)
	p.checkSize(ctx, all, pool, known)
	if settings.Profile == "" {
		all.add(LevelWarning, subject+": instance profile", "none",
			"without one a node cannot fetch the munge key from Secrets Manager or SSM: right only if the image has the key")
	}
	if as.dryRun {
		p.checkLaunch(ctx, all, pool, as)
	}
}

// typesOf lists the types of a pool, each once.
func typesOf(pool CheckPool) []string {
	var names []string
	for _, o := range pool.Offerings {
		if !slices.Contains(names, o.Type) {
			names = append(names, o.Type)
		}
	}
	return names
}

// checkTypes describes the pool's types; those that do not exist are told.
func (p *Provider) checkTypes(ctx context.Context, all *findings, pool CheckPool) map[string]cloud.InstanceType {
	subject := "pool " + pool.Name + ": types"
	known, err := p.describeTypes(ctx, typesOf(pool))
	if err != nil {
		all.failed(subject, err)
		return nil
	}
	var have []string
	for _, name := range typesOf(pool) {
		t, ok := known[name]
		if !ok {
			all.add(LevelWrong, subject, fmt.Sprintf("AWS has no type %s in %s", name, p.c.Region), "check the spelling, and which types the region has")
			continue
		}
		have = append(have, fmt.Sprintf("%s (%d vCPUs, %d GiB, %s)", name, t.CPUs, t.MemoryMiB/1024, t.Arch))
	}
	if len(have) > 0 {
		all.ok(subject, "%s", strings.Join(have, ", "))
	}
	return known
}

// checkImage asks whether the image is there and all types can boot it.
func (p *Provider) checkImage(ctx context.Context, all *findings, pool CheckPool, known map[string]cloud.InstanceType) {
	subject := "pool " + pool.Name + ": image"
	id, err := p.resolveImage(ctx, pool.Image)
	if err != nil {
		all.failed(subject, err)
		return
	}
	facts, err := p.describeImage(ctx, id)
	switch {
	case err != nil:
		all.failed(subject, err)
		return
	case facts.state != "" && facts.state != "available":
		all.add(LevelWrong, subject, fmt.Sprintf("%s is %s", id, facts.state), "wait for it, or choose another")
		return
	}
	fits := true
	for _, name := range typesOf(pool) {
		if t, ok := known[name]; ok && t.Arch != facts.arch {
			fits = false
			all.add(LevelWrong, subject, fmt.Sprintf("%s is for %s, %s is %s", id, facts.arch, name, t.Arch), "a pool's types share one image: give them a pool of their own")
		}
	}
	if fits {
		all.ok(subject, "%s %s (%s, root volume %s)", id, facts.name, facts.arch, facts.root)
	}
	p.checkKeys(all, pool, facts.sealed)
}

// checkKeys names the grants that encrypted volumes need. Neither DryRun nor a launch tries them: EC2 answers well, and
// ends the instance when it cannot decrypt.
func (p *Provider) checkKeys(all *findings, pool CheckPool, sealed []string) {
	settings := p.c.Pools[pool.Name]
	var keys []string
	if settings.Root.KMSKey != "" {
		keys = append(keys, "key "+settings.Root.KMSKey+" (kms_key)")
	}
	if len(sealed) > 0 {
		keys = append(keys, "the key of the image's "+strings.Join(sealed, ", "))
	}
	if len(keys) == 0 {
		return
	}
	who := []string{"the controller's identity"}
	if slices.ContainsFunc(pool.Offerings, func(o cloud.Offering) bool { return o.Market == cloud.Spot }) {
		who = append(who, "AWSServiceRoleForEC2Spot")
	}
	if settings.Fleet != "never" {
		who = append(who, "AWSServiceRoleForEC2Fleet")
	}
	all.add(LevelUnknown, "pool "+pool.Name+": encryption", "volumes are encrypted with "+strings.Join(keys, " and ")+": grants needed by "+strings.Join(who, ", "),
		"it cannot be tried beforehand: unless the key is the account's own aws/ebs, its policy must let these use it and create grants, or instances end as they start (Client.InternalError)")
}

// checkZones asks whether each offering's zone has the type and a subnet.
func (p *Provider) checkZones(ctx context.Context, all *findings, pool CheckPool, known map[string]cloud.InstanceType, subnets map[string]int) {
	subject := "pool " + pool.Name + ": zones"
	offered, err := p.typeZones(ctx, typesOf(pool))
	if err != nil {
		all.failed(subject, err)
		return
	}
	before := len(*all)
	seen := map[string]bool{}
	for _, o := range pool.Offerings {
		t, ok := known[o.Type]
		if !ok {
			continue
		}
		tell := func(text, hint string) {
			if !seen[text] {
				seen[text] = true
				all.add(LevelWrong, subject, text, hint)
			}
		}
		if o.Market == cloud.Spot && !t.Spot {
			tell(o.Type+" is not sold as spot", "take it out of the pool, or use market = \"on-demand\"")
		}
		switch {
		case o.Zone != "" && !slices.Contains(offered[o.Type], o.Zone):
			tell(fmt.Sprintf("%s is not offered in %s", o.Type, o.Zone), "it is in "+orNone(offered[o.Type]))
		case o.Zone != "" && len(subnets) > 0 && subnets[o.Zone] == 0:
			tell("no subnet of the pool is in "+o.Zone, "add one, or take the zone out of the pool")
		case o.Zone == "" && len(subnets) > 0 && !slices.ContainsFunc(offered[o.Type], func(z string) bool { return subnets[z] > 0 }):
			tell(o.Type+" is offered in none of the zones of the pool's subnets", "it is in "+orNone(offered[o.Type]))
		}
	}
	if len(*all) == before && len(pool.Offerings) > 0 {
		all.ok(subject, "each has its types")
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no zone of this region"
	}
	return strings.Join(names, ", ")
}

// checkHardware holds what the pool asks of its types against what they have.
func checkHardware(all *findings, pool CheckPool, settings Pool, known map[string]cloud.InstanceType) {
	for _, name := range typesOf(pool) {
		t, ok := known[name]
		if !ok {
			continue
		}
		subject := "pool " + pool.Name + ": " + name
		switch {
		case settings.EFA && t.EFACards == 0:
			all.add(LevelWrong, subject, "has no EFA", "take efa out of the pool, or this type")
		case settings.EFA && t.EFACards > 1 && settings.PublicIP:
			all.add(LevelWrong, subject, "EC2 gives no public address to an instance with several network cards", "take public_ip or efa out of the pool")
		case settings.EFA:
			all.ok(subject, "%d EFA card(s)", t.EFACards)
		}
		if settings.ThreadsPerCore > t.ThreadsPerCore {
			all.add(LevelWrong, subject, fmt.Sprintf("has %d thread per core, not %d", t.ThreadsPerCore, settings.ThreadsPerCore), "lower threads_per_core")
		}
		if settings.Placement == "cluster" && quotaCode(name, cloud.OnDemand) == standardOnDemand && name[0] == 't' {
			all.add(LevelWrong, subject, "burstable types cannot be in a cluster placement group", "take placement out of the pool, or this type")
		}
	}
	if settings.EFA && settings.Placement == "" {
		all.add(LevelWarning, "pool "+pool.Name+": placement", "EFA without a placement group", `placement = "cluster" brings the nodes close together, for the latency that EFA is bought for`)
	}
}

// checkSize holds the pool's size against the account's quotas.
func (p *Provider) checkSize(ctx context.Context, all *findings, pool CheckPool, known map[string]cloud.InstanceType) {
	seen := map[cloud.Offering]bool{}
	for _, o := range pool.Offerings {
		o.Zone = ""
		t, ok := known[o.Type]
		if !ok || seen[o] {
			continue
		}
		seen[o] = true
		subject := fmt.Sprintf("pool %s: quota of %s", pool.Name, o)
		l, err := p.limit(ctx, o.Type, o.Market, refusalAge)
		if err != nil {
			all.add(LevelUnknown, subject, brief(err), "launches are tried all the same")
			continue
		}
		if l.code == "" {
			all.add(LevelUnknown, subject, "Service Quotas has none that we know", "")
			continue
		}
		one := vcpus(t, p.c.Pools[pool.Name].ThreadsPerCore)
		need := float64(pool.Nodes * one)
		hint := "ask for more at " + quotaPage(p.c.Region, l.code)
		switch {
		case l.vcpus < float64(one):
			all.add(LevelWrong, subject, fmt.Sprintf("%q is %.0f, one instance needs %d", l.name, l.vcpus, one), hint)
		case l.vcpus < need:
			all.add(LevelWarning, subject, fmt.Sprintf("%q is %.0f: room for %d of %d nodes", l.name, l.vcpus, int(l.vcpus)/one, pool.Nodes), hint)
		default:
			all.ok(subject, "%.0f vCPUs, %d nodes need %.0f", l.vcpus, pool.Nodes, need)
		}
	}
}

// checkLaunch tries the launch of one instance on each market, just as it
// would be made but outside of the placement group, which may not be there yet.
func (p *Provider) checkLaunch(ctx context.Context, all *findings, pool CheckPool, as tryAs) {
	tried := map[cloud.Market]bool{}
	for _, o := range pool.Offerings {
		if tried[o.Market] {
			continue
		}
		tried[o.Market] = true
		subject := fmt.Sprintf("pool %s: launch of %s", pool.Name, o)
		err := p.tryLaunch(ctx, cloud.LaunchRequest{
			Token: checkName, Cluster: as.id(), Pool: pool.Name, Offering: o, Count: 1, Image: pool.Image,
		})
		switch kind := cloud.KindOf(failure("check", err)); {
		case isCode(err, "DryRunOperation"):
			all.ok(subject, "allowed, and EC2 takes its settings")
		case err == nil:
			all.add(LevelUnknown, subject, "the endpoint does not heed DryRun for this call", "an emulator may do so; AWS does not")
		case denied(err) && as.cluster == "":
			all.add(LevelUnknown, subject, brief(err), noID)
		case denied(err):
			all.add(LevelWrong, subject, brief(err), "allow ec2:RunInstances, ec2:CreateTags and, with an instance profile, iam:PassRole in the controller's policy: contrib/aws has the smallest one")
		case kind == cloud.Throttled, kind == cloud.Transient, kind == cloud.Capacity:
			all.add(LevelUnknown, subject, brief(err), "")
		default:
			all.add(LevelWrong, subject, brief(err), "a launch would fail with this")
		}
	}
}

func (p *Provider) tryLaunch(ctx context.Context, r cloud.LaunchRequest) error {
	known := p.lookUp(ctx, []cloud.LaunchRequest{r})
	if err := p.resolve(&r, known); err != nil {
		return err
	}
	s, err := plan(&r, p.c.Pools[r.Pool], known, p.skipped)
	if err != nil {
		return err
	}
	s.Placement, s.Targets[0].Placement = "", ""
	in, err := runRequest(r, *s)
	if err != nil {
		return err
	}
	in.DryRun = aws.Bool(true)
	_, err = p.clients.ec2.RunInstances(ctx, in)
	return err
}
