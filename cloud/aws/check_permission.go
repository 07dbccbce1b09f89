package aws

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// checkCluster stands for the cluster's id in what is only tried.
const checkCluster = "burst-check"

// parallelTrials is how many permissions are tried at once.
const parallelTrials = 8

// trial is one permission: the call that needs it, with DryRun, with which EC2
// says whether it would be allowed, and does nothing.
type trial struct {
	permission string
	lack       Level // what it means to lack it: LevelWrong where no launch is possible then
	call       func(context.Context) error
}

// checkPermissions tries what does not depend on a pool's settings.
func (p *Provider) checkPermissions(ctx context.Context, all *findings, pools []CheckPool, dryRun bool) {
	if !dryRun {
		all.add(LevelUnknown, "permissions", "this endpoint does not heed DryRun, so nothing is tried", "an emulator may do so; AWS does not")
		return
	}
	need := p.needsOf(pools)
	all.try(ctx, append(p.reads(need), p.writes(need)...))
	p.checkInstance(ctx, all)
	p.checkTemplate(ctx, all)
	if need.placement {
		p.checkPlacement(ctx, all)
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
func (p *Provider) writes(need needs) []trial {
	c, yes := p.clients.ec2, aws.Bool(true)
	trials := []trial{{"ec2:CreateLaunchTemplate", LevelWrong, func(ctx context.Context) error {
		_, err := c.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
			DryRun: yes, LaunchTemplateName: aws.String(checkCluster),
			LaunchTemplateData: trialTemplate(),
			TagSpecifications:  tagged(p.poolTags(checkCluster, checkCluster), types.ResourceTypeLaunchTemplate),
		})
		return err
	}}}
	if need.placement {
		trials = append(trials, trial{"ec2:CreatePlacementGroup", LevelWrong, func(ctx context.Context) error {
			_, err := c.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{
				DryRun: yes, GroupName: aws.String(checkCluster), Strategy: types.PlacementStrategyCluster,
				TagSpecifications: tagged(p.poolTags(checkCluster, checkCluster), types.ResourceTypePlacementGroup),
			})
			return err
		}})
	}
	return trials
}
