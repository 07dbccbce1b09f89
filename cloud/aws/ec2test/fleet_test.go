package ec2test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// fleetOf asks for n on-demand instances of three pools, by a new template.
func fleetOf(t *testing.T, client *ec2.Client, n int32) *ec2.CreateFleetInput {
	t.Helper()
	made, err := client.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("pool"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(ImageX86), SecurityGroupIds: []string{SecurityGroup}},
	})
	if err != nil {
		t.Fatal(err)
	}
	config := types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateId: made.LaunchTemplate.LaunchTemplateId, Version: aws.String("1"),
	}}
	for i, o := range []struct {
		kind types.InstanceType
		zone string
	}{{"c6i.large", "a"}, {"c6i.large", "b"}, {"m5.large", "a"}} {
		config.Overrides = append(config.Overrides, types.FleetLaunchTemplateOverridesRequest{
			InstanceType: o.kind, SubnetId: aws.String(SubnetIn(o.zone)), Priority: aws.Float64(float64(i)),
		})
	}
	return &ec2.CreateFleetInput{
		Type: "instant", LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{config},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: &n, DefaultTargetCapacityType: "on-demand"},
		OnDemandOptions:             &types.OnDemandOptionsRequest{AllocationStrategy: "prioritized"},
	}
}

func given(out *ec2.CreateFleetOutput) map[string]int {
	all := map[string]int{}
	for _, f := range out.Instances {
		all[string(f.InstanceType)+" "+*f.LaunchTemplateAndOverrides.Overrides.SubnetId] += len(f.InstanceIds)
	}
	return all
}

func TestFleet(t *testing.T) {
	first, second, third := Pool{Type: "c6i.large", Zone: "us-east-1a"}, Pool{Type: "c6i.large", Zone: "us-east-1b"}, Pool{Type: "m5.large", Zone: "us-east-1a"}
	whole := func(in *ec2.CreateFleetInput) {
		in.OnDemandOptions.MinTargetCapacity = in.TargetCapacitySpecification.TotalTargetCapacity
		in.OnDemandOptions.SingleInstanceType, in.OnDemandOptions.SingleAvailabilityZone = aws.Bool(true), aws.Bool(true)
	}
	for name, tt := range map[string]struct {
		prepare func(*Cloud)
		change  func(*ec2.CreateFleetInput)
		want    []int // of the three pools
		codes   []string
	}{
		"first by priority": {nil, nil, []int{4, 0, 0}, nil},
		"partial": {func(c *Cloud) {
			c.SetCapacity(first, 1)
			c.FailPool(second, "RequestLimitExceeded")
			c.SetCapacity(third, 2)
		}, nil, []int{1, 0, 2}, []string{"InsufficientInstanceCapacity", "RequestLimitExceeded", "InsufficientInstanceCapacity"}},
		"whole in the second": {func(c *Cloud) { c.SetCapacity(first, 3) }, whole, []int{0, 4, 0}, nil},
		"whole in none": {func(c *Cloud) {
			for _, p := range []Pool{first, second, third} {
				c.SetCapacity(p, 3)
			}
		}, whole, []int{0, 0, 0}, []string{"InsufficientInstanceCapacity", "InsufficientInstanceCapacity", "InsufficientInstanceCapacity"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, config := open(t, Options{})
			client := ec2.NewFromConfig(config)
			in := fleetOf(t, client, 4)
			in.ClientToken = aws.String("one")
			if tt.prepare != nil {
				tt.prepare(c)
			}
			if tt.change != nil {
				tt.change(in)
			}
			for range 2 { // the repeat says the same
				out, err := client.CreateFleet(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				got := given(out)
				for i, key := range []string{"c6i.large " + SubnetIn("a"), "c6i.large " + SubnetIn("b"), "m5.large " + SubnetIn("a")} {
					if got[key] != tt.want[i] {
						t.Errorf("%s gave %d, want %d", key, got[key], tt.want[i])
					}
				}
				if len(out.Errors) != len(tt.codes) {
					t.Fatalf("%d errors, want %v", len(out.Errors), tt.codes)
				}
				for i, e := range out.Errors {
					if *e.ErrorCode != tt.codes[i] || e.LaunchTemplateAndOverrides.Overrides.InstanceType == "" {
						t.Errorf("error %d is %s, want %s and of which pool", i, *e.ErrorCode, tt.codes[i])
					}
				}
			}
			if sum := tt.want[0] + tt.want[1] + tt.want[2]; c.Live() != sum {
				t.Errorf("%d are live, want %d", c.Live(), sum)
			}
		})
	}
}

func TestFleetNeedsASingle(t *testing.T) {
	_, config := open(t, Options{})
	client := ec2.NewFromConfig(config)
	in := fleetOf(t, client, 4)
	in.OnDemandOptions.MinTargetCapacity = aws.Int32(4)
	if _, err := client.CreateFleet(t.Context(), in); code(err) != "InvalidParameterCombination" {
		t.Errorf("a least capacity alone: %v", err)
	}
}

func TestPlacementGroups(t *testing.T) {
	c, config := open(t, Options{})
	client := ec2.NewFromConfig(config)
	for _, want := range []string{"", "InvalidPlacementGroup.Duplicate"} {
		if _, err := client.CreatePlacementGroup(t.Context(), &ec2.CreatePlacementGroupInput{GroupName: aws.String("g"), Strategy: "cluster"}); code(err) != want {
			t.Errorf("creating: %v, want %q", err, want)
		}
	}
	in := run(1)
	in.Placement = &types.Placement{GroupName: aws.String("g")}
	out, err := client.RunInstances(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	drop := func() string {
		_, err := client.DeletePlacementGroup(t.Context(), &ec2.DeletePlacementGroupInput{GroupName: aws.String("g")})
		return code(err)
	}
	if got := drop(); got != "InvalidPlacementGroup.InUse" {
		t.Errorf("a group in use: %q", got)
	}
	c.Kill(*out.Instances[0].InstanceId)
	if got := drop(); got != "" || len(c.PlacementGroups()) != 0 {
		t.Errorf("an empty group: %q", got)
	}
}

func TestWildcards(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a*", "abc", true}, {"*c", "abc", true}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {"*", "", true}, {"", "a", false},
	} {
		if got := matchWild(tt.pattern, tt.s); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.s, got)
		}
	}
}
