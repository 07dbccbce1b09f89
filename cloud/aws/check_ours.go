package aws

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

// A good policy allows some calls on our own instances, launch templates and
// placement groups only, so that they can be tried where there is one.

// notTried adds that permissions could not be tried, for there is nothing of ours.
func (f *findings) notTried(permissions, what string) {
	f.add(LevelUnknown, "permission "+permissions, "cannot be tried without "+what+" of ours", "check again once there is one")
}

// checkInstance tries what is done to instances.
func (p *Provider) checkInstance(ctx context.Context, all *findings, as tryAs) {
	c, yes := p.clients.ec2, aws.Bool(true)
	id, err := p.anInstance(ctx, as)
	if err != nil {
		all.failed("permission ec2:TerminateInstances", failure("check", err))
		return
	}
	if id == "" {
		all.notTried("ec2:TerminateInstances, ec2:CreateTags, ec2:GetConsoleOutput", "an instance")
		return
	}
	all.try(ctx, []trial{
		{"ec2:TerminateInstances", LevelWrong, func(ctx context.Context) error {
			_, err := c.TerminateInstances(ctx, &ec2.TerminateInstancesInput{DryRun: yes, InstanceIds: []string{id}})
			return err
		}},
		{"ec2:CreateTags", LevelWarning, func(ctx context.Context) error {
			_, err := c.CreateTags(ctx, &ec2.CreateTagsInput{
				DryRun: yes, Resources: []string{id}, Tags: ec2Tags(map[string]string{tagNode: checkName, tagName: checkName}),
			})
			return err
		}},
		{"ec2:GetConsoleOutput", LevelWarning, func(ctx context.Context) error {
			_, err := c.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{DryRun: yes, InstanceId: &id})
			return err
		}},
	})
}

// anInstance finds one running instance of our pools; "" if there is none.
func (p *Provider) anInstance(ctx context.Context, as tryAs) (string, error) {
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
		Filters: as.ours(
			filter("tag-key", tagToken),
			filter("tag:"+tagPool, pools[:min(len(pools), filterLimit)]...),
			filter("instance-state-name", string(types.InstanceStateNameRunning), string(types.InstanceStateNamePending)),
		),
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

// checkTemplate tries what is done with launch templates.
func (p *Provider) checkTemplate(ctx context.Context, all *findings, as tryAs) {
	c, yes := p.clients.ec2, aws.Bool(true)
	out, err := c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: as.ours(filter("tag:"+tagProvider, literal(p.c.Name)))})
	if err != nil {
		all.failed("permission ec2:CreateFleet", failure("check", err))
		return
	}
	if len(out.LaunchTemplates) == 0 {
		all.notTried("ec2:CreateFleet, ec2:CreateLaunchTemplateVersion, ec2:ModifyLaunchTemplate, ec2:DeleteLaunchTemplate", "a launch template")
		return
	}
	id := out.LaunchTemplates[0].LaunchTemplateId
	all.try(ctx, []trial{
		{"ec2:CreateFleet", as.lack(LevelWrong), func(ctx context.Context) error {
			_, err := c.CreateFleet(ctx, trialFleet(id, as.id()))
			return err
		}},
		{"ec2:CreateLaunchTemplateVersion", LevelWrong, func(ctx context.Context) error {
			_, err := c.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
				DryRun: yes, LaunchTemplateId: id, LaunchTemplateData: trialTemplate(),
			})
			return err
		}},
		{"ec2:ModifyLaunchTemplate", LevelWarning, func(ctx context.Context) error {
			_, err := c.ModifyLaunchTemplate(ctx, &ec2.ModifyLaunchTemplateInput{DryRun: yes, LaunchTemplateId: id, DefaultVersion: aws.String("1")})
			return err
		}},
		{"ec2:DeleteLaunchTemplate", LevelWarning, func(ctx context.Context) error {
			_, err := c.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{DryRun: yes, LaunchTemplateId: id})
			return err
		}},
	})
}

// trialTemplate is the least content that a launch template can have.
func trialTemplate() *types.RequestLaunchTemplateData {
	return &types.RequestLaunchTemplateData{InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate}
}

func trialFleet(template *string, cluster string) *ec2.CreateFleetInput {
	return &ec2.CreateFleetInput{
		DryRun: aws.Bool(true), Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: template, Version: aws.String("$Latest")},
		}},
		TagSpecifications: tagged(instanceTags(cloud.LaunchRequest{Token: checkName, Cluster: cluster, Pool: checkName}), fleetKinds...),
	}
}

// checkPlacement tries what is done to placement groups.
func (p *Provider) checkPlacement(ctx context.Context, all *findings, as tryAs) {
	const permission = "ec2:DeletePlacementGroup"
	c := p.clients.ec2
	out, err := c.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: as.ours(filter("tag:"+tagProvider, literal(p.c.Name)))})
	if err != nil {
		all.failed("permission "+permission, failure("check", err))
		return
	}
	if len(out.PlacementGroups) == 0 {
		all.notTried(permission, "a placement group")
		return
	}
	all.try(ctx, []trial{{permission, LevelWarning, func(ctx context.Context) error {
		_, err := c.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{DryRun: aws.Bool(true), GroupName: out.PlacementGroups[0].GroupName})
		return err
	}}})
}
