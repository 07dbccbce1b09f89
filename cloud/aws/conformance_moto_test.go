package aws_test

import (
	"context"
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

// gap is what moto 5.2.4 does otherwise than EC2. TestMotoGaps fails when moto
// has closed one, so that the lists stay true.
type gap struct {
	name     string
	fleet    string   // the pools whose launches it breaks; "": all
	subtests []string // of the suite, that it cannot pass for it
	closed   func(ctx context.Context, m *mototest.Moto) (bool, error)
}

// allGaps are those of launches and lists, of fleets and of the rest.
var allGaps = slices.Concat(launchGaps, fleetGaps, accountGaps)

var launchGaps = []gap{
	{
		"RunInstances ignores ClientToken",
		"never", replays,
		func(ctx context.Context, m *mototest.Moto) (bool, error) {
			in := runOne(m)
			in.ClientToken = awssdk.String("one")
			first, err := m.EC2.RunInstances(ctx, in)
			if err != nil {
				return false, err
			}
			again, err := m.EC2.RunInstances(ctx, in)
			return err == nil && *first.Instances[0].InstanceId == *again.Instances[0].InstanceId, err
		},
	},
	{
		"RunInstances launches MinCount instances, not up to MaxCount", "", nil, // the suite asks for all or nothing
		func(ctx context.Context, m *mototest.Moto) (bool, error) {
			in := runOne(m)
			in.MaxCount = awssdk.Int32(3)
			out, err := m.EC2.RunInstances(ctx, in)
			return err == nil && len(out.Instances) == 3, err
		},
	},
	{"unknown images are launched", "", nil, refused(func(in *ec2.RunInstancesInput) { in.ImageId = awssdk.String("ami-0123456789abcdef0") })},
	{"unknown types are launched", "", nil, refused(func(in *ec2.RunInstancesInput) { in.InstanceType = "c99.huge" })},
	{"an architecture that does not fit is launched", "", nil, refused(func(in *ec2.RunInstancesInput) { in.InstanceType = "c6g.large" })},
	{
		"a root volume without a size is refused, though the image has one", "", nil,
		func(ctx context.Context, m *mototest.Moto) (bool, error) {
			in := runOne(m)
			in.BlockDeviceMappings = []types.BlockDeviceMapping{{
				DeviceName: awssdk.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{DeleteOnTermination: awssdk.Bool(true)},
			}}
			_, err := m.EC2.RunInstances(ctx, in)
			return err == nil, answered(err)
		},
	},
	{
		"EFA interfaces lose their type", "", nil,
		func(ctx context.Context, m *mototest.Moto) (bool, error) {
			in := runOne(m)
			in.InstanceType, in.SubnetId = "c5n.18xlarge", nil
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{
				DeviceIndex: awssdk.Int32(0), SubnetId: &m.Subnets[0].ID, InterfaceType: awssdk.String("efa"),
			}}
			out, err := m.EC2.RunInstances(ctx, in)
			if err != nil {
				return false, err
			}
			n := out.Instances[0].NetworkInterfaces
			return len(n) > 0 && awssdk.ToString(n[0].InterfaceType) == "efa", nil
		},
	},
	{
		"pages count reservations, not instances",
		"", []string{"pages"}, // TestMotoListsPages has them
		func(ctx context.Context, m *mototest.Moto) (bool, error) {
			in := runOne(m)
			in.MinCount, in.MaxCount = awssdk.Int32(7), awssdk.Int32(7)
			if _, err := m.EC2.RunInstances(ctx, in); err != nil {
				return false, err
			}
			out, err := m.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: awssdk.Int32(5)})
			return err == nil && out.NextToken != nil, err
		},
	},
	{
		"there are no placement groups", "", nil,
		func(ctx context.Context, m *mototest.Moto) (bool, error) {
			_, err := m.EC2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: awssdk.String("g"), Strategy: types.PlacementStrategyCluster})
			return err == nil, nil
		},
	},
	{
		"CreateImage does not take tags of snapshots", "", []string{"image"}, // TestConformanceFake has it
		func(ctx context.Context, m *mototest.Moto) (bool, error) {
			out, err := m.EC2.RunInstances(ctx, runOne(m))
			if err != nil {
				return false, err
			}
			_, err = m.EC2.CreateImage(ctx, &ec2.CreateImageInput{
				InstanceId: out.Instances[0].InstanceId, Name: awssdk.String("one"),
				TagSpecifications: []types.TagSpecification{{
					ResourceType: types.ResourceTypeSnapshot, Tags: []types.Tag{{Key: awssdk.String("a"), Value: awssdk.String("b")}},
				}},
			})
			return err == nil, answered(err)
		},
	},
	{
		"there is always capacity: of a type in a zone that does not have it too", "",
		[]string{"partial launch", "all or nothing", "choice among offerings", "choice, all or nothing", "choice, an error for each", "choice, throttled"},
		refused(func(in *ec2.RunInstancesInput) { in.InstanceType = "hpc6a.48xlarge" }), // sold in us-east-2 and few others
	},
}

// runOne is a launch that moto takes.
func runOne(m *mototest.Moto) *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		ImageId: &m.Image, InstanceType: "c6i.large", SubnetId: &m.Subnets[0].ID, MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(1),
	}
}

// refused says whether moto refuses the launch as changed.
func refused(change func(*ec2.RunInstancesInput)) func(context.Context, *mototest.Moto) (bool, error) {
	return func(ctx context.Context, m *mototest.Moto) (bool, error) {
		in := runOne(m)
		change(in)
		_, err := m.EC2.RunInstances(ctx, in)
		return err != nil, answered(err)
	}
}

// answered leaves the errors that are no answer of moto's.
func answered(err error) error {
	if _, ok := err.(*smithy.OperationError); ok {
		return nil
	}
	return err
}

func TestMotoGaps(t *testing.T) {
	if testing.Short() {
		t.Skip("moto: slow end-to-end, run by make test")
	}
	m := mototest.Start(t, mototest.Options{})
	for _, g := range allGaps {
		t.Run(g.name, func(t *testing.T) {
			m.Reset(t)
			closed, err := g.closed(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if closed {
				t.Error("moto has closed this gap: take it off the list, and run the suite's subtests that it names")
			}
		})
	}
}

func TestConformanceMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("moto: slow end-to-end, run by make test")
	}
	m := mototest.Start(t, mototest.Options{})
	for name, fleet := range map[string]string{"by RunInstances": "never", "by CreateFleet": "always"} {
		t.Run(name, func(t *testing.T) {
			cannot := map[string]string{}
			for _, g := range allGaps {
				for _, name := range g.subtests {
					if g.fleet == "" || g.fleet == fleet {
						cannot[name] = "moto: " + g.name
					}
				}
			}
			cloudtest.Conformance(t, cloudtest.Harness{Gaps: cannot, New: func(t *testing.T) cloudtest.Cloud {
				m.Reset(t)
				r := request
				r.Image, r.AllOrNothing = m.Image, true
				pool := aws.Pool{
					Subnets: []string{m.Subnets[0].ID, m.Subnets[1].ID}, SecurityGroups: []string{m.SecurityGroup},
					Fleet: fleet, Root: aws.Root{GiB: 8},
				}
				open := func() cloud.Provider { return quick{over(t, m.Endpoint, pool), 20 * time.Millisecond, false} }
				return cloudtest.Cloud{Provider: open(), Reopen: open, Request: r}
			}})
		})
	}
}
