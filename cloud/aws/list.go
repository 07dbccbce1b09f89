package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

const opList = "list"

// pageSize is EC2's largest page of instances.
const pageSize = 1000

// maxNamed is how many ids or tokens List asks for by name; beyond, it reads
// the whole cluster and picks.
const maxNamed = 5 * filterLimit

// List implements cloud.Provider. It asks by filter only, never by id: EC2
// refuses a call that names an id it does not show yet.
func (p *Provider) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	if f.Cluster == "" {
		return nil, invalid(opList, "the filter names no cluster")
	}
	parts := queries(f)
	found, errs := make([][]cloud.Instance, len(parts)), make([]error, len(parts))
	var wg sync.WaitGroup
	for i, filters := range parts {
		wg.Go(func() { found[i], errs[i] = p.describe(ctx, filters) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, failure(opList, fmt.Errorf("listing the instances of cluster %s in %s: %w", f.Cluster, p.c.Region, err))
	}
	all := slices.Concat(found...)
	tokens, ids := setOf(f.Tokens), setOf(f.IDs)
	return slices.DeleteFunc(all, func(i cloud.Instance) bool {
		return i.Cluster != f.Cluster || len(tokens) > 0 && !tokens[i.Token] || len(ids) > 0 && !ids[i.ID]
	}), nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// queries are the sets of EC2 filters that together find what f names, and
// perhaps more.
func queries(f cloud.Filter) [][]types.Filter {
	cluster := filter("tag:"+tagCluster, literal(f.Cluster))
	name, values := "instance-id", f.IDs
	if len(values) == 0 {
		name, values = "tag:"+tagToken, f.Tokens
	}
	if len(values) == 0 || len(values) > maxNamed {
		return [][]types.Filter{{cluster}}
	}
	var all [][]types.Filter
	for part := range slices.Chunk(values, filterLimit) {
		exact := make([]string, len(part))
		for i, v := range part {
			exact[i] = literal(v)
		}
		all = append(all, []types.Filter{cluster, filter(name, exact...)})
	}
	return all
}

// literal takes their meaning from EC2's wildcards.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(s)
}

// describe reads all pages, or none.
func (p *Provider) describe(ctx context.Context, filters []types.Filter) ([]cloud.Instance, error) {
	var all []cloud.Instance
	pages := ec2.NewDescribeInstancesPaginator(p.clients.ec2, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(pageSize)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				all = append(all, instance(i))
			}
		}
	}
	return all, nil
}

// instance reads EC2's instance.
func instance(i types.Instance) cloud.Instance {
	one := cloud.Instance{
		ID:       aws.ToString(i.InstanceId),
		Offering: cloud.Offering{Type: string(i.InstanceType), Market: cloud.OnDemand},
		State:    cloud.Pending,
		Addr:     aws.ToString(i.PrivateIpAddress),
		Launched: aws.ToTime(i.LaunchTime),
	}
	if i.Placement != nil {
		one.Offering.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	if i.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
		one.Offering.Market = cloud.Spot
	}
	if i.State != nil {
		one.State = state(i.State.Name)
	}
	if !one.State.Live() && i.StateReason != nil {
		one.Why = endOf(i.StateReason)
	}
	if one.State == cloud.Terminated {
		one.Ended = transition(aws.ToString(i.StateTransitionReason))
	}
	for _, t := range i.Tags {
		value := aws.ToString(t.Value)
		switch aws.ToString(t.Key) {
		case tagCluster:
			one.Cluster = value
		case tagPool:
			one.Pool = value
		case tagToken:
			one.Token = value
		case tagNode:
			one.Node = value
		}
	}
	return one
}

// state reads EC2's states. A stopped instance (someone stopped it, EC2 did
// for a retirement, or it hibernates) runs no job and will not come back by
// itself, but its volumes cost money until it is terminated. So it is
// Terminating: no node for Slurm any more, and to be ended again and again
// until EC2 says that it is terminated.
func state(s types.InstanceStateName) cloud.State {
	switch s {
	case types.InstanceStateNameRunning:
		return cloud.Running
	case types.InstanceStateNameTerminated:
		return cloud.Terminated
	case types.InstanceStateNameShuttingDown, types.InstanceStateNameStopping, types.InstanceStateNameStopped:
		return cloud.Terminating
	}
	return cloud.Pending
}

// endOf is EC2's reason in one line. Its message often begins with the code.
func endOf(reason *types.StateReason) string {
	code, message := aws.ToString(reason.Code), strings.Join(strings.Fields(aws.ToString(reason.Message)), " ")
	text := message
	if !strings.Contains(message, code) {
		text = strings.TrimSuffix(code+": "+message, ": ")
	}
	if code == "Client.InternalError" { // EC2 says no more of a volume that it cannot decrypt
		text += "; as a rule EC2 may not use the KMS key of its volume: docs/aws.md names the grants"
	}
	return text
}

// transitionTime is in "User initiated (2026-11-21 05:00:00 GMT)".
var transitionTime = regexp.MustCompile(`\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (GMT|UTC)\)`)

// transition reads when a state began; zero where EC2 does not say.
func transition(reason string) time.Time {
	m := transitionTime.FindStringSubmatch(reason)
	if m == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.DateTime, m[1])
	if err != nil {
		return time.Time{}
	}
	return t
}
