package mototest

import (
	"context"
	_ "embed"
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// The site's images, which images.json describes, and the name of the first in SSM.
const (
	image     = "ami-0c0000000000000c1"
	imageARM  = "ami-0c0000000000000c2"
	parameter = "/burst/image"
)

// images are all that moto has. Those that it registers itself lose their
// architecture and root device.
//
//go:embed images.json
var images []byte

// furnish makes the site.
func (m *Moto) furnish(t testing.TB) {
	t.Helper()
	if err := m.make(t.Context()); err != nil {
		t.Fatalf("making the site in moto: %v", err)
	}
}

func (m *Moto) make(ctx context.Context) error {
	first, err := netip.ParsePrefix(m.cidrs[0])
	if err != nil {
		return err
	}
	vpc, err := m.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String(netip.PrefixFrom(first.Addr(), 16).Masked().String())})
	if err != nil {
		return err
	}
	m.VPC = *vpc.Vpc.VpcId
	m.Subnets = nil
	for i, cidr := range m.cidrs {
		zone := Region + string("ab"[i%2])
		s, err := m.EC2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &m.VPC, CidrBlock: &cidr, AvailabilityZone: &zone})
		if err != nil {
			return err
		}
		m.Subnets = append(m.Subnets, Subnet{ID: *s.Subnet.SubnetId, Zone: zone, CIDR: cidr})
	}
	group, err := m.EC2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		VpcId: &m.VPC, GroupName: aws.String("nodes"), Description: aws.String("nodes of the cluster"),
	})
	if err != nil {
		return err
	}
	m.SecurityGroup = *group.GroupId
	m.Image, m.ImageARM, m.Parameter = image, imageARM, parameter
	_, err = ssm.NewFromConfig(m.config).PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(parameter), Value: &m.Image, Type: ssmtypes.ParameterTypeString, Overwrite: aws.Bool(true),
	})
	return err
}
