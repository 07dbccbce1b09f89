package mototest

import (
	"encoding/base64"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
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
		images, err := m.EC2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{m.Image, m.ImageARM}})
		if err != nil || len(images.Images) != 2 || images.Images[0].Architecture != "x86_64" || aws.ToString(images.Images[0].RootDeviceName) != "/dev/xvda" {
			t.Fatalf("round %d: images are %v, %v", round, images, err)
		}
		m.Reset(t)
	}
}

func TestInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("moto: slow end-to-end, run by make test")
	}
	m := Start(t, Options{CIDRs: []string{"127.50.0.0/20"}})
	began := time.Now().Truncate(time.Second) // as EC2 tells it
	_, err := m.EC2.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: &m.Image, InstanceType: "c6i.large", MinCount: aws.Int32(2), MaxCount: aws.Int32(2), SubnetId: &m.Subnets[0].ID,
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))),
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := m.Instances(t)
	if len(all) != 2 {
		t.Fatalf("instances are %+v, want 2", all)
	}
	for i, addr := range []string{"127.50.0.4", "127.50.0.5"} { // AWS keeps the first four
		got := all[i]
		want := Instance{
			ID: got.ID, State: "running", Addr: addr, Type: "c6i.large", Zone: "us-east-1a", Subnet: m.Subnets[0].ID, Launched: got.Launched,
			Tags: map[string]string{"k": "v"}, UserData: "#!/bin/sh\n",
		}
		if !reflect.DeepEqual(got, want) || got.Launched.Before(began) || got.Launched.After(time.Now()) {
			t.Errorf("instance is %+v, want %+v, launched since %s", got, want, began)
		}
	}
	m.Terminate(t, all[0].ID)
	if all = m.Instances(t); all[0].State != "terminated" || all[1].State != "running" {
		t.Errorf("after one was terminated: %+v", all)
	}
}
