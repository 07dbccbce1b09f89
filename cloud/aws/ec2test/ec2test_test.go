package ec2test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// open starts a cloud, and the SDK's configuration for it.
func open(t *testing.T, o Options) (*Cloud, aws.Config) {
	t.Helper()
	c := New(o)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(c.URL()), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}

func run(n int32) *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		ImageId: aws.String(ImageX86), InstanceType: "c6i.large", SubnetId: aws.String(SubnetIn("a")),
		SecurityGroupIds: []string{SecurityGroup}, MinCount: aws.Int32(1), MaxCount: &n,
	}
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func TestLifeOfAnInstance(t *testing.T) {
	c, config := open(t, Options{Boot: time.Minute, Lag: 10 * time.Second, AddrDelay: 30 * time.Second, Shutdown: time.Minute})
	client := ec2.NewFromConfig(config)
	in := run(1)
	in.TagSpecifications = []types.TagSpecification{{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("<&>")}}}}
	out, err := client.RunInstances(t.Context(), in)
	if err != nil || len(out.Instances) != 1 || out.Instances[0].State.Name != "pending" {
		t.Fatalf("got %+v, %v, want a pending instance", out, err)
	}
	id := *out.Instances[0].InstanceId
	named := &ec2.DescribeInstancesInput{InstanceIds: []string{id}}
	if _, err := client.DescribeInstances(t.Context(), named); code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("an instance not shown yet: %v", err)
	}
	steps := []struct {
		after time.Duration
		do    func()
		state string
		addr  bool
	}{
		{10 * time.Second, nil, "pending", false},
		{20 * time.Second, nil, "pending", true},
		{30 * time.Second, nil, "running", true},
		{0, func() { c.Stop(id) }, "stopped", true},
		{0, func() {
			_, err = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
		}, "shutting-down", true},
		{time.Minute, nil, "terminated", false},
	}
	for i, s := range steps {
		c.Advance(s.after)
		if s.do != nil {
			s.do()
		}
		if err != nil {
			t.Fatal(err)
		}
		found, err := client.DescribeInstances(t.Context(), named)
		if err != nil {
			t.Fatal(err)
		}
		one := found.Reservations[0].Instances[0]
		if string(one.State.Name) != s.state || (one.PrivateIpAddress != nil) != s.addr || *one.Tags[0].Value != "<&>" {
			t.Errorf("step %d: %s with address %v, want %s, %v", i, one.State.Name, one.PrivateIpAddress, s.state, s.addr)
		}
	}
	c.Advance(time.Hour)
	if _, err := client.DescribeInstances(t.Context(), named); code(err) != "InvalidInstanceID.NotFound" || len(c.Instances()) != 0 {
		t.Errorf("an hour after its end: %v", err)
	}
}

func TestPagesOfInstances(t *testing.T) {
	_, config := open(t, Options{})
	client := ec2.NewFromConfig(config)
	want := map[string]bool{}
	for range 2 {
		out, err := client.RunInstances(t.Context(), run(7))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range out.Instances {
			want[*i.InstanceId] = true
		}
	}
	var sizes []int
	pages := ec2.NewDescribeInstancesPaginator(client, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				delete(want, *i.InstanceId)
				n++
			}
		}
		sizes = append(sizes, n)
	}
	if !slices.Equal(sizes, []int{5, 5, 4}) || len(want) != 0 {
		t.Errorf("pages of %v, %d not shown", sizes, len(want))
	}
}

func TestClientToken(t *testing.T) {
	c, config := open(t, Options{})
	client := ec2.NewFromConfig(config)
	in := run(3)
	in.ClientToken = aws.String("one")
	first, err := client.RunInstances(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.RunInstances(t.Context(), in)
	if err != nil || *again.Instances[2].InstanceId != *first.Instances[2].InstanceId || c.Live() != 3 {
		t.Errorf("the repeat gave %v, %v, %d are live", again, err, c.Live())
	}
	other := run(2)
	other.ClientToken = in.ClientToken
	if _, err := client.RunInstances(t.Context(), other); code(err) != "IdempotentParameterMismatch" {
		t.Errorf("another request under the token: %v", err)
	}
	c.Kill(*first.Instances[0].InstanceId)
	if _, err := client.RunInstances(t.Context(), in); code(err) != "IdempotentInstanceTerminated" {
		t.Errorf("a repeat after an end: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	c, config := open(t, Options{})
	c.SetQuota(true, 4)
	c.SetCapacity(Pool{Type: "m5.large", Zone: "us-east-1a"}, 0)
	client := ec2.NewFromConfig(config)
	spot := &types.InstanceMarketOptionsRequest{MarketType: "spot", SpotOptions: &types.SpotMarketOptions{}}
	cheap := &types.InstanceMarketOptionsRequest{MarketType: "spot", SpotOptions: &types.SpotMarketOptions{MaxPrice: aws.String("0.001")}}
	for name, tt := range map[string]struct {
		change func(*ec2.RunInstancesInput)
		code   string
	}{
		"type":            {func(in *ec2.RunInstancesInput) { in.InstanceType = "c99.huge" }, "InvalidParameterValue"},
		"image":           {func(in *ec2.RunInstancesInput) { in.ImageId = aws.String("ami-1") }, "InvalidAMIID.NotFound"},
		"image malformed": {func(in *ec2.RunInstancesInput) { in.ImageId = aws.String("x") }, "InvalidAMIID.Malformed"},
		"architecture":    {func(in *ec2.RunInstancesInput) { in.InstanceType = "c6g.large" }, "InvalidParameterValue"},
		"subnet":          {func(in *ec2.RunInstancesInput) { in.SubnetId = aws.String("subnet-1") }, "InvalidSubnetID.NotFound"},
		"other VPC":       {func(in *ec2.RunInstancesInput) { in.SubnetId = aws.String(SubnetElsewhere) }, "InvalidParameter"},
		"group":           {func(in *ec2.RunInstancesInput) { in.SecurityGroupIds = []string{"sg-1"} }, "InvalidGroup.NotFound"},
		"zone":            {func(in *ec2.RunInstancesInput) { in.InstanceType = "hpc6a.48xlarge" }, "Unsupported"},
		"key":             {func(in *ec2.RunInstancesInput) { in.KeyName = aws.String("x") }, "InvalidKeyPair.NotFound"},
		"placement":       {func(in *ec2.RunInstancesInput) { in.Placement = &types.Placement{GroupName: aws.String("x")} }, "InvalidPlacementGroup.Unknown"},
		"user data":       {func(in *ec2.RunInstancesInput) { in.UserData = aws.String("?") }, "InvalidUserData.Malformed"},
		"capacity":        {func(in *ec2.RunInstancesInput) { in.InstanceType = "m5.large" }, "InsufficientInstanceCapacity"},
		"quota": {func(in *ec2.RunInstancesInput) {
			in.InstanceMarketOptions, in.MinCount, in.MaxCount = spot, aws.Int32(3), aws.Int32(3)
		}, "MaxSpotInstanceCountExceeded"},
		"price":   {func(in *ec2.RunInstancesInput) { in.InstanceMarketOptions = cheap }, "SpotMaxPriceTooLow"},
		"dry run": {func(in *ec2.RunInstancesInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation"},
		"EFA": {func(in *ec2.RunInstancesInput) {
			in.SubnetId, in.SecurityGroupIds = nil, nil
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), InterfaceType: aws.String("efa"), SubnetId: aws.String(SubnetIn("a"))}}
		}, "AttachmentLimitExceeded"},
	} {
		in := run(1)
		tt.change(in)
		if _, err := client.RunInstances(t.Context(), in); code(err) != tt.code {
			t.Errorf("%s: %v, want %s", name, err, tt.code)
		}
	}
	if n := c.Live(); n != 0 {
		t.Errorf("%d instances were launched", n)
	}
}

func TestSpecIsKept(t *testing.T) {
	c, config := open(t, Options{})
	client := ec2.NewFromConfig(config)
	in := run(1)
	in.InstanceType, in.SubnetId, in.SecurityGroupIds = "p4d.24xlarge", nil, nil
	for i := range int32(4) {
		in.NetworkInterfaces = append(in.NetworkInterfaces, types.InstanceNetworkInterfaceSpecification{
			NetworkCardIndex: aws.Int32(i), DeviceIndex: aws.Int32(min(i, 1)), InterfaceType: aws.String("efa"),
			SubnetId: aws.String(SubnetIn("b")), Groups: []string{SecurityGroup},
		})
	}
	in.UserData = aws.String("aGVsbG8=")
	in.MetadataOptions = &types.InstanceMetadataOptionsRequest{HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(1)}
	in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(100), VolumeType: "gp3", Encrypted: aws.Bool(true)}}}
	in.CpuOptions = &types.CpuOptionsRequest{CoreCount: aws.Int32(48), ThreadsPerCore: aws.Int32(1)}
	if _, err := client.RunInstances(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	s := c.Instances()[0].Spec
	if len(s.Interfaces) != 4 || s.Interfaces[3].Type != "efa" || s.Interfaces[3].Card != 3 || s.Interfaces[3].Device != 1 ||
		s.UserData != "hello" || s.IMDSTokens != "required" || s.IMDSHops != 1 || s.Threads != 1 || s.Volumes[0].GiB != 100 || s.Volumes[0].Encrypted != "true" {
		t.Errorf("kept is %+v", s)
	}
}
