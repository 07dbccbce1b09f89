package aws_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/smithy-go"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cloud/aws/wholebody"
)

// fleetGaps are of CreateFleet, with which moto reads little of a launch template.
var fleetGaps = []gap{
	{"CreateFleet ignores ClientToken", "always", replays, func(ctx context.Context, m *mototest.Moto) (bool, error) {
		in, err := fleetOfOne(ctx, m, nil)
		if err != nil {
			return false, err
		}
		in.ClientToken = awssdk.String("one")
		var ids []string
		for range 2 {
			out, err := m.EC2.CreateFleet(ctx, in)
			if err != nil {
				return false, err
			}
			ids = append(ids, out.Instances[0].InstanceIds...)
		}
		return ids[0] == ids[1], nil
	}},
	{"a fleet's instances are not in the template's security groups", "", nil, fleetKeeps(
		func(d *types.RequestLaunchTemplateData, m *mototest.Moto) {
			d.SecurityGroupIds = []string{m.SecurityGroup}
		},
		func(i types.Instance, m *mototest.Moto) bool {
			return slices.ContainsFunc(i.SecurityGroups, func(g types.GroupIdentifier) bool { return awssdk.ToString(g.GroupId) == m.SecurityGroup })
		},
	)},
	{"a fleet's instances lose the template's metadata options", "", nil, fleetKeeps(
		func(d *types.RequestLaunchTemplateData, _ *mototest.Moto) {
			d.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired}
		},
		func(i types.Instance, _ *mototest.Moto) bool {
			return i.MetadataOptions.HttpTokens == types.HttpTokensStateRequired
		},
	)},
	{"a fleet's instances lose the template's volumes", "", nil, fleetKeeps(
		func(d *types.RequestLaunchTemplateData, _ *mototest.Moto) {
			d.BlockDeviceMappings = []types.LaunchTemplateBlockDeviceMappingRequest{{
				DeviceName: awssdk.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: awssdk.Int32(30)},
			}}
		},
		func(i types.Instance, _ *mototest.Moto) bool {
			return awssdk.ToString(i.BlockDeviceMappings[0].DeviceName) == "/dev/xvda"
		},
	)},
}

// accountGaps are of what lies beside instances.
var accountGaps = []gap{
	{"a gp3 volume's iops are its default", "", nil, func(ctx context.Context, m *mototest.Moto) (bool, error) {
		in := runOne(m)
		in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: awssdk.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{
			VolumeSize: awssdk.Int32(30), VolumeType: types.VolumeTypeGp3, Iops: awssdk.Int32(4000),
		}}}
		if _, err := m.EC2.RunInstances(ctx, in); err != nil {
			return false, err
		}
		out, err := m.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{})
		return err == nil && awssdk.ToInt32(out.Volumes[0].Iops) == 4000, err
	}},
	{"CPU options are not kept", "", nil, func(ctx context.Context, m *mototest.Moto) (bool, error) {
		in := runOne(m)
		in.CpuOptions = &types.CpuOptionsRequest{CoreCount: awssdk.Int32(1), ThreadsPerCore: awssdk.Int32(1)}
		out, err := m.EC2.RunInstances(ctx, in)
		return err == nil && out.Instances[0].CpuOptions != nil, err
	}},
	{"spot instances are launched at any price", "", nil, refused(func(in *ec2.RunInstancesInput) {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{
			MarketType: types.MarketTypeSpot, SpotOptions: &types.SpotMarketOptions{MaxPrice: awssdk.String("0.000001")},
		}
	})},
	{"there are no capacity reservations", "", nil, answers(func(ctx context.Context, m *mototest.Moto) error {
		_, err := m.EC2.CreateCapacityReservation(ctx, &ec2.CreateCapacityReservationInput{
			InstanceType: awssdk.String("c6i.large"), InstancePlatform: types.CapacityReservationInstancePlatformLinuxUnix,
			AvailabilityZone: &m.Subnets[0].Zone, InstanceCount: awssdk.Int32(1),
		})
		return err
	})},
	{"there is no price list", "", nil, answers(func(ctx context.Context, m *mototest.Moto) error {
		_, err := pricing.NewFromConfig(configOf(m)).GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonEC2")})
		return err
	})},
	{"there are no quotas of EC2", "", nil, answers(func(ctx context.Context, m *mototest.Moto) error {
		_, err := servicequotas.NewFromConfig(configOf(m)).GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{
			ServiceCode: awssdk.String("ec2"), QuotaCode: awssdk.String("L-1216C47A"),
		})
		return err
	})},
	{"DryRun is not heeded by all calls", "", nil, func(ctx context.Context, m *mototest.Moto) (bool, error) {
		_, err := m.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
			DryRun: awssdk.Bool(true), InstanceTypes: []types.InstanceType{"c6i.large"},
		})
		var api smithy.APIError
		return errors.As(err, &api) && api.ErrorCode() == "DryRunOperation", answered(err)
	}},
}

// replays are the subtests of the suite that repeat a launch.
var replays = []string{"launch replayed", "launch replayed after some ended", "launches race", "terminate at once"}

// fleetOfOne makes a template, as changed, and the request of an instant fleet from it.
func fleetOfOne(ctx context.Context, m *mototest.Moto, change func(*types.RequestLaunchTemplateData)) (*ec2.CreateFleetInput, error) {
	data := &types.RequestLaunchTemplateData{ImageId: &m.Image}
	if change != nil {
		change(data)
	}
	out, err := m.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: awssdk.String("one"), LaunchTemplateData: data})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateId: out.LaunchTemplate.LaunchTemplateId, Version: awssdk.String("1"),
			},
			Overrides: []types.FleetLaunchTemplateOverridesRequest{{InstanceType: "c6i.large", SubnetId: &m.Subnets[0].ID}},
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: awssdk.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
	}, nil
}

// fleetKeeps says whether an instance of a fleet has what its template was changed to.
func fleetKeeps(change func(*types.RequestLaunchTemplateData, *mototest.Moto), kept func(types.Instance, *mototest.Moto) bool) func(context.Context, *mototest.Moto) (bool, error) {
	return func(ctx context.Context, m *mototest.Moto) (bool, error) {
		in, err := fleetOfOne(ctx, m, func(d *types.RequestLaunchTemplateData) { change(d, m) })
		if err != nil {
			return false, err
		}
		if _, err := m.EC2.CreateFleet(ctx, in); err != nil {
			return false, err
		}
		out, err := m.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
		if err != nil || len(out.Reservations) != 1 {
			return false, fmt.Errorf("instances of the fleet: %+v, %v", out, err)
		}
		return kept(out.Reservations[0].Instances[0], m), nil
	}
}

// answers says whether moto has the call at all.
func answers(call func(context.Context, *mototest.Moto) error) func(context.Context, *mototest.Moto) (bool, error) {
	return func(ctx context.Context, m *mototest.Moto) (bool, error) {
		err := call(ctx, m)
		return err == nil, answered(err)
	}
}

func configOf(m *mototest.Moto) awssdk.Config {
	return awssdk.Config{
		Region: mototest.Region, BaseEndpoint: &m.Endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:  wholebody.Client{HTTPClient: http.DefaultClient},
		Retryer:     func() awssdk.Retryer { return awssdk.NopRetryer{} }, // what moto lacks is an HTTP 500
	}
}
