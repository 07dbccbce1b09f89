package mototest

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

func TestStart(t *testing.T) {
	if testing.Short() {
		t.Skip("moto: slow end-to-end, run by make test")
	}
	m := Start(t, Options{CIDRs: []string{"127.50.0.0/20", "127.50.16.0/20", "127.50.32.0/20"}})
	for round := range 2 {
		out, err := m.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{m.Subnets[0].ID, m.Subnets[1].ID, m.Subnets[2].ID}})
		if err != nil || len(out.Subnets) != 3 {
			t.Fatalf("round %d: subnets are %v, %v", round, out, err)
		}
		for i, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1a"} {
			if m.Subnets[i].Zone != zone {
				t.Errorf("subnet %d is in %s, want %s", i, m.Subnets[i].Zone, zone)
			}
		}
		images, err := m.EC2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{m.Image}})
		if err != nil || len(images.Images) != 1 {
			t.Fatalf("round %d: images are %v, %v", round, images, err)
		}
		m.Reset(t)
	}
}
