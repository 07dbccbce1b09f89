package aws

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

var (
	onDemandA = cloud.Offering{Type: "c6i.2xlarge", Zone: "us-east-1a", Market: cloud.OnDemand}
	onDemandB = cloud.Offering{Type: "c5.2xlarge", Zone: "us-east-1b", Market: cloud.OnDemand}
	spotA     = cloud.Offering{Type: "c6i.2xlarge", Zone: "us-east-1a", Market: cloud.Spot}
	spotB     = cloud.Offering{Type: "c5.2xlarge", Zone: "us-east-1b", Market: cloud.Spot}
)

// sent is what the API gets of a value: its JSON without what is not set.
func sent(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	text, err = json.MarshalIndent(prune(tree), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e = prune(e); e == nil || e == "" {
				delete(v, k)
			} else {
				v[k] = e
			}
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}

func fullMachine() machine {
	return machine{
		Groups: []string{"sg-1", "sg-2"}, Key: "admin", Profile: "node", Placement: "burst-c-hpc", Reservation: "cr-1",
		Volumes: []volume{
			{Device: "/dev/xvda", Root: Root{GiB: 100, Type: "gp3", IOPS: 4000, Throughput: 250, KMSKey: "key-1"}},
			{Device: "/dev/sdb"},
		},
		hardware: hardware{Cards: []string{"efa", "efa-only"}, Cores: 4, Threads: 1},
	}
}

func TestRunRequest(t *testing.T) {
	r := cloud.LaunchRequest{
		Token: "t-1", Cluster: "c", Pool: "hpc", Offering: spotA, Count: 7, Image: "ami-1", UserData: "#!/bin/sh\n",
		Tags: map[string]string{"team": "wx", cloud.TagJob: "42"}, AllOrNothing: true, MaxPrice: 0.2,
	}
	s := spec{API: byRunInstances, Targets: []target{{Offering: spotA, Subnet: "subnet-a", Zone: "us-east-1a"}}, machine: fullMachine()}
	got, err := runRequest(r, s)
	if err != nil {
		t.Fatal(err)
	}
	tags := []types.Tag{
		{Key: aws.String("burst:cluster"), Value: aws.String("c")}, {Key: aws.String("burst:job"), Value: aws.String("42")},
		{Key: aws.String("burst:pool"), Value: aws.String("hpc")}, {Key: aws.String("burst:token"), Value: aws.String("t-1")},
		{Key: aws.String("team"), Value: aws.String("wx")},
	}
	want := &ec2.RunInstancesInput{
		MinCount: aws.Int32(7), MaxCount: aws.Int32(7), ClientToken: aws.String("t-1"),
		ImageId: aws.String("ami-1"), InstanceType: "c6i.2xlarge", KeyName: aws.String("admin"),
		UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))),
		IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: aws.String("node")},
		BlockDeviceMappings: []types.BlockDeviceMapping{
			{DeviceName: aws.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{
				DeleteOnTermination: aws.Bool(true), VolumeSize: aws.Int32(100), VolumeType: "gp3", Iops: aws.Int32(4000),
				Throughput: aws.Int32(250), KmsKeyId: aws.String("key-1"), Encrypted: aws.Bool(true),
			}},
			{DeviceName: aws.String("/dev/sdb"), Ebs: &types.EbsBlockDevice{DeleteOnTermination: aws.Bool(true)}},
		},
		MetadataOptions:                   &types.InstanceMetadataOptionsRequest{HttpEndpoint: "enabled", HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(1)},
		InstanceInitiatedShutdownBehavior: "terminate",
		Placement:                         &types.Placement{GroupName: aws.String("burst-c-hpc")},
		CapacityReservationSpecification: &types.CapacityReservationSpecification{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: aws.String("cr-1")},
		},
		CpuOptions: &types.CpuOptionsRequest{CoreCount: aws.Int32(4), ThreadsPerCore: aws.Int32(1)},
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{
			{NetworkCardIndex: aws.Int32(0), DeviceIndex: aws.Int32(0), InterfaceType: aws.String("efa"), SubnetId: aws.String("subnet-a"), Groups: []string{"sg-1", "sg-2"}, DeleteOnTermination: aws.Bool(true)},
			{NetworkCardIndex: aws.Int32(1), DeviceIndex: aws.Int32(1), InterfaceType: aws.String("efa-only"), SubnetId: aws.String("subnet-a"), Groups: []string{"sg-1", "sg-2"}, DeleteOnTermination: aws.Bool(true)},
		},
		InstanceMarketOptions: &types.InstanceMarketOptionsRequest{MarketType: "spot", SpotOptions: &types.SpotMarketOptions{
			SpotInstanceType: "one-time", InstanceInterruptionBehavior: "terminate", MaxPrice: aws.String("0.2"),
		}},
		TagSpecifications: []types.TagSpecification{
			{ResourceType: "instance", Tags: tags}, {ResourceType: "volume", Tags: tags}, {ResourceType: "spot-instances-request", Tags: tags},
		},
	}
	if want, got := sent(t, want), sent(t, got); !reflect.DeepEqual(got, want) {
		t.Errorf("sent is\n%+v\nwant\n%+v", got, want)
	}
}

func TestRunRequestPlain(t *testing.T) {
	r := cloud.LaunchRequest{Token: "t-1", Cluster: "c", Pool: "p", Offering: onDemandA, Count: 7, Image: "ami-1"}
	s := spec{Targets: []target{{Offering: onDemandA, Subnet: "subnet-a"}}, machine: machine{
		Groups: []string{"sg-1"}, Profile: "arn:aws:iam::1:instance-profile/node", Reservation: "arn:aws:resource-groups:::g"}}
	in, err := runRequest(r, s)
	if err != nil {
		t.Fatal(err)
	}
	if *in.MinCount != 1 || *in.MaxCount != 7 || in.InstanceMarketOptions != nil || in.CpuOptions != nil || in.Placement != nil || in.UserData != nil {
		t.Errorf("%s", sent(t, in))
	}
	if *in.SubnetId != "subnet-a" || in.SecurityGroupIds[0] != "sg-1" || len(in.NetworkInterfaces) != 0 {
		t.Errorf("a plain instance needs no interface: %s", sent(t, in))
	}
	if in.IamInstanceProfile.Arn == nil || in.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationResourceGroupArn == nil {
		t.Errorf("ARNs are not told from names: %s", sent(t, in))
	}
	s.PublicIP = true
	if in, err = runRequest(r, s); err != nil {
		t.Fatal(err)
	}
	if len(in.NetworkInterfaces) != 1 || !*in.NetworkInterfaces[0].AssociatePublicIpAddress || in.SubnetId != nil || in.SecurityGroupIds != nil {
		t.Errorf("a public address needs the interface: %s", sent(t, in))
	}
}

// What a template has, RunInstances must get too.
func TestRunInputLosesNothing(t *testing.T) {
	d := fullMachine().data(cloud.LaunchRequest{Image: "ami-1", UserData: "x"})
	in, err := runInput(d)
	if err != nil {
		t.Fatal(err)
	}
	if want, got := sent(t, d), sent(t, in); !reflect.DeepEqual(got, want) {
		t.Errorf("sent is\n%+v\nwant\n%+v", got, want)
	}
}

func TestFleetRequest(t *testing.T) {
	for _, tt := range []struct {
		name   string
		r      cloud.LaunchRequest
		want   []string // in what is sent
		absent []string
	}{
		{"on-demand keeps the order", cloud.LaunchRequest{Offering: onDemandA, Or: []cloud.Offering{onDemandB}, Count: 7},
			[]string{`"DefaultTargetCapacityType": "on-demand"`, `"AllocationStrategy": "prioritized"`, `"Priority": 1`, `"TotalTargetCapacity": 7`, `"Type": "instant"`},
			[]string{"SpotOptions", "MinTargetCapacity", "MaxPrice", "CapacityReservationOptions"}},
		{"spot is EC2's choice", cloud.LaunchRequest{Offering: spotA, Or: []cloud.Offering{spotB}, Count: 7, MaxPrice: 0.25},
			[]string{`"DefaultTargetCapacityType": "spot"`, `"AllocationStrategy": "price-capacity-optimized"`, `"MaxPrice": "0.25"`},
			[]string{"OnDemandOptions", "Priority", "MinTargetCapacity"}},
		{"all or nothing", cloud.LaunchRequest{Offering: spotA, Count: 7, AllOrNothing: true},
			[]string{`"MinTargetCapacity": 7`, `"SingleInstanceType": true`, `"SingleAvailabilityZone": true`},
			[]string{"MaxPrice"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec{API: byCreateFleet, Template: &template{ID: "lt-1", Version: "3"}}
			for i, o := range tt.r.Offerings() {
				s.Targets = append(s.Targets, target{Offering: o, Subnet: "subnet-" + string(rune('a'+i)), Zone: o.Zone})
			}
			tt.r.Token, tt.r.Cluster, tt.r.Pool = "t-1", "c", "p"
			text := sent(t, fleetRequest(tt.r, s))
			for _, w := range append(tt.want, `"ClientToken": "t-1"`, `"LaunchTemplateId": "lt-1"`, `"Version": "3"`, `"SubnetId": "subnet-a"`, `"burst:token"`) {
				if !strings.Contains(text, w) {
					t.Errorf("%s is missing in %s", w, text)
				}
			}
			for _, w := range tt.absent {
				if strings.Contains(text, w) {
					t.Errorf("%s is in %s", w, text)
				}
			}
		})
	}
}

func TestFleetOfAReservation(t *testing.T) {
	s := spec{Template: &template{ID: "lt-1", Version: "3"}, Targets: []target{{Offering: onDemandA}}, machine: machine{Reservation: "cr-1"}}
	if text := sent(t, fleetRequest(cloud.LaunchRequest{Token: "t-1", Offering: onDemandA, Count: 1}, s)); !strings.Contains(text, `"UsageStrategy": "use-capacity-reservations-first"`) {
		t.Errorf("the reservation is not used first in %s", text)
	}
}

func TestClientToken(t *testing.T) {
	for _, tt := range []struct {
		name, token string
		asIs        bool
	}{
		{"fits", "3f0c-launch.1", true},
		{"64 characters", strings.Repeat("a", 64), true},
		{"too long", strings.Repeat("a", 65), false},
		{"not ASCII", "tök", false},
		{"blank", "a b", false},
	} {
		got := clientToken(tt.token)
		if (got == tt.token) != tt.asIs || len(got) > 64 || got != clientToken(tt.token) {
			t.Errorf("%s: %q becomes %q", tt.name, tt.token, got)
		}
	}
}

func TestSharedName(t *testing.T) {
	for _, tt := range []struct {
		name, cluster, pool, prefix string
	}{
		{"plain", "c1", "c6i", "burst-c1-c6i"},
		{"odd characters", "c1", "ä b", "burst-c1-__b-"},
		{"long", "c1", strings.Repeat("p", 200), "burst-c1-ppp"},
	} {
		got := sharedName(tt.cluster, tt.pool)
		if !strings.HasPrefix(got, tt.prefix) || len(got) > 128 {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	if sharedName("c", "a b") == sharedName("c", "a_b") || sharedName("c", strings.Repeat("p", 200)) == sharedName("c", strings.Repeat("p", 201)) {
		t.Error("two pools share a name")
	}
}

func TestReadType(t *testing.T) {
	card := func(kinds ...types.NetworkCardInterfaceType) types.NetworkCardInfo {
		return types.NetworkCardInfo{InterfaceTypes: kinds}
	}
	for _, tt := range []struct {
		name string
		n    *types.NetworkInfo
		want []string
	}{
		{"no EFA", &types.NetworkInfo{EfaSupported: aws.Bool(false)}, nil},
		{"one card", &types.NetworkInfo{EfaSupported: aws.Bool(true), EfaInfo: &types.EfaInfo{MaximumEfaInterfaces: aws.Int32(1)}, NetworkCards: []types.NetworkCardInfo{{}}}, []string{"efa"}},
		{"an emulator's answer", &types.NetworkInfo{EfaSupported: aws.Bool(true)}, []string{"efa"}},
		{"four cards", &types.NetworkInfo{EfaSupported: aws.Bool(true), EfaInfo: &types.EfaInfo{MaximumEfaInterfaces: aws.Int32(4)}, NetworkCards: make([]types.NetworkCardInfo, 4)}, []string{"efa", "efa", "efa", "efa"}},
		{"fewer EFA than cards", &types.NetworkInfo{EfaSupported: aws.Bool(true), EfaInfo: &types.EfaInfo{MaximumEfaInterfaces: aws.Int32(1)}, NetworkCards: make([]types.NetworkCardInfo, 2)}, []string{"efa", ""}},
		{"first card without EFA, others with nothing else", &types.NetworkInfo{EfaSupported: aws.Bool(true), EfaInfo: &types.EfaInfo{MaximumEfaInterfaces: aws.Int32(2)}, NetworkCards: []types.NetworkCardInfo{
			card("interface"), card("efa-only"), card("interface"), card("efa", "interface")}}, []string{"interface", "efa-only", "", "efa"}},
	} {
		if got := readType(types.InstanceTypeInfo{NetworkInfo: tt.n}).cards; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
