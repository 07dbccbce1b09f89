package mototest

import (
	"context"
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// parameter is the name of the site's image in SSM.
const parameter = "/burst/image"

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
	image, err := m.EC2.RegisterImage(ctx, &ec2.RegisterImageInput{
		Name: aws.String("burst-node"), Architecture: types.ArchitectureValuesX8664, RootDeviceName: aws.String("/dev/xvda"),
		VirtualizationType: aws.String("hvm"),
	})
	if err != nil {
		return err
	}
	m.Image, m.Parameter = *image.ImageId, parameter
	_, err = ssm.NewFromConfig(m.config).PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(parameter), Value: &m.Image, Type: ssmtypes.ParameterTypeString, Overwrite: aws.Bool(true),
	})
	return err
}
