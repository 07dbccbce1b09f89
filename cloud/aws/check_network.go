package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// checkNetwork looks at subnets, security groups and key of a pool. It
// returns how many free addresses its subnets have in each zone; nil if they
// could not be read.
func (p *Provider) checkNetwork(ctx context.Context, all *findings, pool CheckPool, settings Pool) map[string]int {
	vpc, free := p.checkSubnets(ctx, all, pool, settings)
	p.checkGroups(ctx, all, pool, settings, vpc)
	p.checkKey(ctx, all, pool, settings)
	return free
}

func (p *Provider) checkSubnets(ctx context.Context, all *findings, pool CheckPool, settings Pool) (vpc string, free map[string]int) {
	subject := "pool " + pool.Name + ": subnets"
	if len(settings.Subnets) == 0 {
		all.add(LevelWrong, subject, "none", "name one for each zone of the pool")
		return "", nil
	}
	var subnets []types.Subnet
	pages := ec2.NewDescribeSubnetsPaginator(p.clients.ec2, &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("subnet-id", settings.Subnets...)}})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			all.failed(subject, failure("check", err))
			return "", nil
		}
		subnets = append(subnets, out.Subnets...)
	}
	before := len(*all)
	var have, vpcs []string
	free, total := map[string]int{}, 0
	for _, s := range subnets {
		have = append(have, aws.ToString(s.SubnetId))
		if v := aws.ToString(s.VpcId); !slices.Contains(vpcs, v) {
			vpcs = append(vpcs, v)
		}
		if aws.ToBool(s.Ipv6Native) {
			all.add(LevelWrong, subject, aws.ToString(s.SubnetId)+" has IPv6 addresses alone: burstd tells slurmctld an instance's private IPv4 address, and there is none, so that each boot would be paid for and given up",
				"use subnets with IPv4 addresses")
		}
		addresses := int(aws.ToInt32(s.AvailableIpAddressCount))
		free[aws.ToString(s.AvailabilityZone)] += addresses
		total += addresses
	}
	for _, id := range settings.Subnets {
		if !slices.Contains(have, id) {
			all.add(LevelWrong, subject, fmt.Sprintf("%s does not exist in %s", id, p.c.Region), "check the id and the region")
		}
	}
	if len(vpcs) > 1 {
		all.add(LevelWrong, subject, "they are in several VPCs: "+strings.Join(vpcs, ", "), "security groups belong to one VPC, so must a pool's subnets")
	}
	switch most := mostFree(free); {
	case len(subnets) == 0:
	case total < pool.Nodes:
		all.add(LevelWarning, subject, fmt.Sprintf("%d free addresses for %d nodes", total, pool.Nodes), "use larger subnets, or more of them")
	case most < pool.Nodes:
		all.add(LevelWarning, subject, fmt.Sprintf("%d free addresses in the roomiest zone: a job of all %d nodes, which is in one zone, does not fit", most, pool.Nodes), "use larger subnets")
	case len(*all) == before:
		all.ok(subject, "%d in %s, %d free addresses", len(subnets), vpcs[0], total)
	}
	if len(vpcs) != 1 {
		return "", free
	}
	return vpcs[0], free
}

func mostFree(free map[string]int) int {
	most := 0
	for _, n := range free {
		most = max(most, n)
	}
	return most
}

// checkGroups looks at the security groups; vpc is that of the subnets, empty
// if it is not known.
func (p *Provider) checkGroups(ctx context.Context, all *findings, pool CheckPool, settings Pool, vpc string) {
	subject := "pool " + pool.Name + ": security groups"
	if len(settings.SecurityGroups) == 0 {
		level, text := LevelWarning, "none: nodes get the VPC's default group"
		if settings.EFA {
			level, text = LevelWrong, "none, and EFA needs one that lets the nodes reach each other"
		}
		all.add(level, subject, text, "name a group that allows Slurm's ports from the cluster and all traffic among nodes")
		return
	}
	var groups []types.SecurityGroup
	pages := ec2.NewDescribeSecurityGroupsPaginator(p.clients.ec2, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("group-id", settings.SecurityGroups...)}})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			all.failed(subject, failure("check", err))
			return
		}
		groups = append(groups, out.SecurityGroups...)
	}
	before := len(*all)
	for _, id := range settings.SecurityGroups {
		i := slices.IndexFunc(groups, func(g types.SecurityGroup) bool { return aws.ToString(g.GroupId) == id })
		switch {
		case i < 0:
			all.add(LevelWrong, subject, fmt.Sprintf("%s does not exist in %s", id, p.c.Region), "check the id and the region")
		case vpc != "" && aws.ToString(groups[i].VpcId) != vpc:
			all.add(LevelWrong, subject, fmt.Sprintf("%s is in %s, the subnets are in %s", id, aws.ToString(groups[i].VpcId), vpc), "use a group of the subnets' VPC")
		}
	}
	if settings.EFA && len(groups) > 0 && !slices.ContainsFunc(groups, openToItself) {
		all.add(LevelWrong, subject, "none lets all traffic in from itself and out to itself, without which EFA carries nothing",
			"add both rules with the group itself as source and destination, protocol all")
	}
	if len(*all) == before {
		all.ok(subject, "%s", strings.Join(settings.SecurityGroups, ", "))
	}
}

// openToItself says whether a group allows all traffic among its members in
// both directions by rules that name the group, as EFA demands.
func openToItself(g types.SecurityGroup) bool {
	names := func(rules []types.IpPermission) bool {
		return slices.ContainsFunc(rules, func(r types.IpPermission) bool {
			return aws.ToString(r.IpProtocol) == "-1" && slices.ContainsFunc(r.UserIdGroupPairs, func(pair types.UserIdGroupPair) bool {
				return aws.ToString(pair.GroupId) == aws.ToString(g.GroupId)
			})
		})
	}
	return names(g.IpPermissions) && names(g.IpPermissionsEgress)
}

func (p *Provider) checkKey(ctx context.Context, all *findings, pool CheckPool, settings Pool) {
	if settings.Key == "" {
		return
	}
	subject := "pool " + pool.Name + ": key pair"
	out, err := p.clients.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{Filters: []types.Filter{filter("key-name", settings.Key)}})
	switch {
	case err != nil:
		all.failed(subject, failure("check", err))
	case len(out.KeyPairs) == 0:
		all.add(LevelWrong, subject, fmt.Sprintf("%q does not exist in %s", settings.Key, p.c.Region), "check its name: key pairs belong to a region")
	default:
		all.ok(subject, "%s", settings.Key)
	}
}
