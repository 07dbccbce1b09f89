package aws

import (
	"cmp"
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// checkName names what is only tried.
const checkName = "burst-check"

// tryAs says whether calls may be tried, and for which cluster; empty: not known.
type tryAs struct {
	dryRun  bool
	cluster string
}

// id is the cluster in the tags of what is tried.
func (a tryAs) id() string { return cmp.Or(a.cluster, checkName) }

// lack is what a refusal of a call with our tag means: nothing without the true id.
func (a tryAs) lack(level Level) Level {
	if a.cluster == "" {
		return LevelUnknown
	}
	return level
}

// ours finds what has the cluster's tag, where the id is known.
func (a tryAs) ours(filters ...types.Filter) []types.Filter {
	if a.cluster != "" {
		filters = append(filters, filter("tag:"+tagCluster, literal(a.cluster)))
	}
	return filters
}

// noID is said of refusals that prove nothing.
const noID = "the policy may allow it with the tag of the cluster's id only, which is not known here"

// parallelTrials is how many permissions are tried at once.
const parallelTrials = 8

// trial is one permission: the call that needs it, with DryRun, with which EC2
// says whether it would be allowed, and does nothing.
type trial struct {
	permission string
	lack       Level // what a refusal means: LevelWrong where no launch is possible then
	call       func(context.Context) error
}

// checkPermissions tries what does not depend on a pool's settings.
func (p *Provider) checkPermissions(ctx context.Context, all *findings, pools []CheckPool, as tryAs) {
	if !as.dryRun {
		all.add(LevelUnknown, "permissions", "this endpoint does not heed DryRun, so nothing is tried", "an emulator may do so; AWS does not")
		return
	}
	need := p.needsOf(pools)
	all.try(ctx, append(p.reads(need), p.writes(need, as)...))
	p.checkInstance(ctx, all, as)
	p.checkTemplate(ctx, all, as)
	if need.placement {
		p.checkPlacement(ctx, all, as)
	}
}

// try makes the trials, some at a time, and adds a line for each.
func (f *findings) try(ctx context.Context, trials []trial) {
	results := make([]error, len(trials))
	var wg sync.WaitGroup
	room := make(chan struct{}, parallelTrials)
	for i, t := range trials {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			within, cancel := context.WithTimeout(ctx, answerWithin)
			defer cancel()
			results[i] = t.call(within)
		})
	}
	wg.Wait()
	for i, t := range trials {
		f.verdict(t, results[i])
	}
}

// verdict adds what DryRun's answer says of a permission.
func (f *findings) verdict(t trial, err error) {
	subject := "permission " + t.permission
	switch {
	case isCode(err, "DryRunOperation"):
		f.ok(subject, "allowed")
	case denied(err) && t.lack == LevelUnknown:
		f.add(t.lack, subject, brief(err), noID)
	case denied(err):
		f.add(t.lack, subject, brief(err), "allow it in the controller's policy: contrib/aws has the smallest one")
	case err == nil:
		f.add(LevelUnknown, subject, "the endpoint does not heed DryRun for this call", "an emulator may do so; AWS does not")
	default:
		f.add(LevelUnknown, subject, "AWS does not say: "+brief(err), "")
	}
}

// reads are the calls that only look. Those that this check alone makes are
// not among them: it says itself what it may not see.
func (p *Provider) reads(need needs) []trial {
	c, yes := p.clients.ec2, aws.Bool(true)
	trials := []trial{
		{"ec2:DescribeInstances", LevelWrong, func(ctx context.Context) error {
			_, err := c.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeInstanceTypes", LevelWrong, func(ctx context.Context) error {
			_, err := c.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeInstanceTypeOfferings", LevelWarning, func(ctx context.Context) error {
			_, err := c.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeImages", LevelWrong, func(ctx context.Context) error {
			_, err := c.DescribeImages(ctx, &ec2.DescribeImagesInput{DryRun: yes, Owners: []string{"self"}})
			return err
		}},
		{"ec2:DescribeSubnets", LevelWrong, func(ctx context.Context) error {
			_, err := c.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeLaunchTemplates", LevelWrong, func(ctx context.Context) error {
			_, err := c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeLaunchTemplateVersions", LevelWrong, func(ctx context.Context) error {
			_, err := c.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{DryRun: yes, Versions: []string{"$Latest"}})
			return err
		}},
	}
	if need.spot {
		trials = append(trials, trial{"ec2:DescribeSpotPriceHistory", LevelWarning, func(ctx context.Context) error {
			_, err := c.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{DryRun: yes})
			return err
		}})
	}
	if need.placement {
		trials = append(trials, trial{"ec2:DescribePlacementGroups", LevelWarning, func(ctx context.Context) error {
			_, err := c.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{DryRun: yes})
			return err
		}})
	}
	return trials
}

// writes are the calls that make what instances need.
func (p *Provider) writes(need needs, as tryAs) []trial {
	c, yes := p.clients.ec2, aws.Bool(true)
	trials := []trial{{"ec2:CreateLaunchTemplate", as.lack(LevelWrong), func(ctx context.Context) error {
		_, err := c.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
			DryRun: yes, LaunchTemplateName: aws.String(checkName),
			LaunchTemplateData: trialTemplate(),
			TagSpecifications:  tagged(p.poolTags(as.id(), checkName), types.ResourceTypeLaunchTemplate),
		})
		return err
	}}}
	if need.placement {
		trials = append(trials, trial{"ec2:CreatePlacementGroup", as.lack(LevelWrong), func(ctx context.Context) error {
			_, err := c.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{
				DryRun: yes, GroupName: aws.String(checkName), Strategy: types.PlacementStrategyCluster,
				TagSpecifications: tagged(p.poolTags(as.id(), checkName), types.ResourceTypePlacementGroup),
			})
			return err
		}})
	}
	return trials
}
