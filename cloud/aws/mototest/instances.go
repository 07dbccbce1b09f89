package mototest

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Instance is what moto says of an instance.
type Instance struct {
	ID       string
	State    string // "running", "terminated", …
	Addr     string // private; a terminated instance has none
	Type     string
	Zone     string
	Subnet   string
	Spot     bool
	Launched time.Time // in whole seconds
	Tags     map[string]string
	UserData string
}

// Instances lists all that moto has, terminated ones too.
func (m *Moto) Instances(t testing.TB) []Instance {
	t.Helper()
	all, err := m.List(t.Context())
	if err != nil {
		t.Fatalf("listing moto's instances: %v", err)
	}
	return all
}

// List is Instances for goroutines that may not end the test.
func (m *Moto) List(ctx context.Context) ([]Instance, error) {
	var all []Instance
	pages := ec2.NewDescribeInstancesPaginator(m.EC2, &ec2.DescribeInstancesInput{})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				one, err := m.instance(ctx, i)
				if err != nil {
					return nil, err
				}
				all = append(all, one)
			}
		}
	}
	return all, nil
}

func (m *Moto) instance(ctx context.Context, i types.Instance) (Instance, error) {
	one := Instance{
		ID: aws.ToString(i.InstanceId), State: string(i.State.Name), Addr: aws.ToString(i.PrivateIpAddress),
		Type: string(i.InstanceType), Zone: aws.ToString(i.Placement.AvailabilityZone), Subnet: aws.ToString(i.SubnetId),
		Launched: aws.ToTime(i.LaunchTime),
		Spot:     i.InstanceLifecycle == types.InstanceLifecycleTypeSpot, Tags: map[string]string{},
	}
	for _, t := range i.Tags {
		one.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	out, err := m.EC2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{
		InstanceId: &one.ID, Attribute: types.InstanceAttributeNameUserData,
	})
	if err != nil {
		return Instance{}, err
	}
	if out.UserData != nil {
		text, err := base64.StdEncoding.DecodeString(aws.ToString(out.UserData.Value))
		if err != nil {
			return Instance{}, fmt.Errorf("user data of %s: %w", one.ID, err)
		}
		one.UserData = string(text)
	}
	return one, nil
}

// Terminate ends instances as if somebody else had.
func (m *Moto) Terminate(t testing.TB, ids ...string) {
	t.Helper()
	if _, err := m.EC2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
		t.Fatalf("terminating %v in moto: %v", ids, err)
	}
}
