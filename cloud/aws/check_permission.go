package aws

import (
	"context"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

// checkCluster stands for the cluster's id in what is only tried.
const checkCluster = "burst-check"

// parallelTrials is how many permissions are tried at once.
const parallelTrials = 8

// trial is one permission: the call that needs it, with DryRun, with which EC2
// says whether it would be allowed, and does nothing.
type trial struct {
	permission string
	call       func(context.Context) error
}

// checkPermissions tries what does not depend on a pool's settings.
func (p *Provider) checkPermissions(ctx context.Context, all *findings, pools []CheckPool, dryRun bool) {
	if !dryRun {
		all.add(LevelUnknown, "permissions", "this endpoint does not heed DryRun, so nothing is tried", "an emulator may do so; AWS does not")
		return
	}
	need := p.needsOf(pools)
	trials := p.reads(need)
	trials = append(trials, p.writes(need)...)
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
		all.verdict(t.permission, results[i])
	}
	p.checkOnWhatRuns(ctx, all)
}

// verdict adds what DryRun's answer says of a permission.
func (f *findings) verdict(permission string, err error) {
	subject := "permission " + permission
	switch {
	case isCode(err, "DryRunOperation"):
		f.ok(subject, "allowed")
	case denied(err):
		f.add(LevelWrong, subject, brief(err), "allow it in the controller's policy: contrib/aws has the smallest one")
	case err == nil:
		f.add(LevelUnknown, subject, "the endpoint does not heed DryRun for this call", "an emulator may do so; AWS does not")
	default:
		f.add(LevelUnknown, subject, "AWS does not say: "+brief(err), "")
	}
}

// reads are the calls that only look.
func (p *Provider) reads(need needs) []trial {
	c, yes := p.clients.ec2, aws.Bool(true)
	trials := []trial{
		{"ec2:DescribeInstances", func(ctx context.Context) error {
			_, err := c.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeInstanceTypes", func(ctx context.Context) error {
			_, err := c.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeInstanceTypeOfferings", func(ctx context.Context) error {
			_, err := c.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeImages", func(ctx context.Context) error {
			_, err := c.DescribeImages(ctx, &ec2.DescribeImagesInput{DryRun: yes, Owners: []string{"self"}})
			return err
		}},
		{"ec2:DescribeSubnets", func(ctx context.Context) error {
			_, err := c.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeSecurityGroups", func(ctx context.Context) error {
			_, err := c.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeLaunchTemplates", func(ctx context.Context) error {
			_, err := c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{DryRun: yes})
			return err
		}},
		{"ec2:DescribeLaunchTemplateVersions", func(ctx context.Context) error {
			_, err := c.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{DryRun: yes, Versions: []string{"$Latest"}})
			return err
		}},
	}
	if need.spot {
		trials = append(trials, trial{"ec2:DescribeSpotPriceHistory", func(ctx context.Context) error {
			_, err := c.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{DryRun: yes})
			return err
		}})
	}
	if need.key {
		trials = append(trials, trial{"ec2:DescribeKeyPairs", func(ctx context.Context) error {
			_, err := c.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{DryRun: yes})
			return err
		}})
	}
	if need.placement {
		trials = append(trials, trial{"ec2:DescribePlacementGroups", func(ctx context.Context) error {
			_, err := c.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{DryRun: yes})
			return err
		}})
	}
	return trials
}

// writes are the calls that make what instances need.
func (p *Provider) writes(need needs) []trial {
	c, yes := p.clients.ec2, aws.Bool(true)
	trials := []trial{{"ec2:CreateLaunchTemplate", func(ctx context.Context) error {
		_, err := c.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
			DryRun: yes, LaunchTemplateName: aws.String(checkCluster),
			LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate},
			TagSpecifications:  tagged(p.poolTags(checkCluster, checkCluster), types.ResourceTypeLaunchTemplate),
		})
		return err
	}}}
	if need.placement {
		trials = append(trials, trial{"ec2:CreatePlacementGroup", func(ctx context.Context) error {
			_, err := c.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{
				DryRun: yes, GroupName: aws.String(checkCluster), Strategy: types.PlacementStrategyCluster,
				TagSpecifications: tagged(p.poolTags(checkCluster, checkCluster), types.ResourceTypePlacementGroup),
			})
			return err
		}})
	}
	return trials
}

// checkOnWhatRuns tries what a policy allows on our own instances and launch
// templates only: it can be told where there is one.
func (p *Provider) checkOnWhatRuns(ctx context.Context, all *findings) {
	c, yes := p.clients.ec2, aws.Bool(true)
	id, err := p.anInstance(ctx)
	switch {
	case err != nil:
		all.failed("permission ec2:TerminateInstances", failure("check", err))
	case id == "":
		all.add(LevelUnknown, "permission ec2:TerminateInstances, ec2:CreateTags, ec2:GetConsoleOutput",
			"cannot be tried without an instance of ours", "check again while a node runs")
	default:
		_, err := c.TerminateInstances(ctx, &ec2.TerminateInstancesInput{DryRun: yes, InstanceIds: []string{id}})
		all.verdict("ec2:TerminateInstances", err)
		_, err = c.CreateTags(ctx, &ec2.CreateTagsInput{DryRun: yes, Resources: []string{id}, Tags: ec2Tags(map[string]string{tagNode: checkCluster, tagName: checkCluster})})
		all.verdict("ec2:CreateTags", err)
		_, err = c.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{DryRun: yes, InstanceId: &id})
		all.verdict("ec2:GetConsoleOutput", err)
	}
	out, err := c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: []types.Filter{filter("tag:"+tagProvider, p.c.Name)}})
	switch {
	case err != nil:
		all.failed("permission ec2:CreateFleet", failure("check", err))
	case len(out.LaunchTemplates) == 0:
		all.add(LevelUnknown, "permission ec2:CreateFleet, ec2:CreateLaunchTemplateVersion, ec2:DeleteLaunchTemplate",
			"cannot be tried without a launch template of ours", "check again after the first launch by fleet")
	default:
		template := out.LaunchTemplates[0].LaunchTemplateId
		_, err := c.CreateFleet(ctx, trialFleet(template))
		all.verdict("ec2:CreateFleet", err)
		_, err = c.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
			DryRun: yes, LaunchTemplateId: template,
			LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate},
		})
		all.verdict("ec2:CreateLaunchTemplateVersion", err)
		_, err = c.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{DryRun: yes, LaunchTemplateId: template})
		all.verdict("ec2:DeleteLaunchTemplate", err)
	}
}

func trialFleet(template *string) *ec2.CreateFleetInput {
	return &ec2.CreateFleetInput{
		DryRun: aws.Bool(true), Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: template, Version: aws.String("$Latest")},
		}},
		TagSpecifications: tagged(instanceTags(cloud.LaunchRequest{Token: checkCluster, Cluster: checkCluster, Pool: checkCluster}), types.ResourceTypeInstance),
	}
}

// anInstance finds one running instance of our pools; "" if there is none.
func (p *Provider) anInstance(ctx context.Context) (string, error) {
	var pools []string
	for name := range p.c.Pools {
		pools = append(pools, name)
	}
	slices.Sort(pools)
	if len(pools) == 0 {
		return "", nil
	}
	out, err := p.clients.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
		MaxResults: aws.Int32(5),
		Filters: []types.Filter{
			filter("tag-key", tagToken),
			filter("tag:"+tagPool, pools[:min(len(pools), filterLimit)]...),
			filter("instance-state-name", string(types.InstanceStateNameRunning), string(types.InstanceStateNamePending)),
		},
	})
	if err != nil {
		return "", err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			return aws.ToString(i.InstanceId), nil
		}
	}
	return "", nil
}
