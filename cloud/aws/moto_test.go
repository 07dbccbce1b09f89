package aws_test

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/mototest"
)

func startMoto(t *testing.T) *mototest.Moto {
	t.Helper()
	if testing.Short() {
		t.Skip("moto: slow end-to-end, run by make test")
	}
	return mototest.Start(t, mototest.Options{})
}

// onMoto is a pool that moto can launch: it wants a size for the root volume.
func onMoto(m *mototest.Moto, fleet string) aws.Pool {
	return aws.Pool{
		Subnets: []string{m.Subnets[0].ID, m.Subnets[1].ID}, SecurityGroups: []string{m.SecurityGroup},
		Fleet: fleet, Root: aws.Root{GiB: 30, Type: "gp3", Encrypted: awssdk.Bool(true)},
	}
}

func launchOn(t *testing.T, p cloud.Provider, r cloud.LaunchRequest) []cloud.Instance {
	t.Helper()
	got, err := p.Launch(t.Context(), r)
	if err != nil || len(got) != r.Count {
		t.Fatalf("launching %d: got %+v, %v", r.Count, got, err)
	}
	return got
}

// motoRequest is a launch in the second zone, whose image a parameter names.
func motoRequest(m *mototest.Moto, token string) cloud.LaunchRequest {
	return cloud.LaunchRequest{
		Token: token, Cluster: "c1", Pool: "pool", Count: 2, AllOrNothing: true, MaxPrice: 0.2,
		Offering: cloud.Offering{Type: "c6i.large", Zone: m.Subnets[1].Zone, Market: cloud.OnDemand},
		Image:    "ssm:" + m.Parameter, UserData: "#!/bin/sh\necho \"é & <x>\"\n",
		Tags: map[string]string{cloud.TagJob: "7", "cost center": "a+b & c"},
	}
}

// TestMotoReadsLaunches launches by both calls on both markets, and looks at
// what an emulator of others has understood.
func TestMotoReadsLaunches(t *testing.T) {
	m := startMoto(t)
	for _, fleet := range []string{"never", "always"} {
		for _, market := range []cloud.Market{cloud.OnDemand, cloud.Spot} {
			t.Run("fleet "+fleet+", "+string(market), func(t *testing.T) {
				m.Reset(t)
				r := motoRequest(m, "t1")
				r.Offering.Market = market
				p := over(t, m.Endpoint, onMoto(m, fleet))
				got := launchOn(t, p, r)
				all := m.Instances(t)
				if len(all) != 2 {
					t.Fatalf("moto has %+v, want 2 instances", all)
				}
				for i, one := range all {
					if one.Zone != r.Offering.Zone || one.Subnet != m.Subnets[1].ID || one.Type != r.Offering.Type || one.Spot != (market == cloud.Spot) {
						t.Errorf("moto has %+v, want %s", one, r.Offering)
					}
					if one.UserData != r.UserData {
						t.Errorf("user data is %q, want %q", one.UserData, r.UserData)
					}
					for k, v := range map[string]string{
						"burst:cluster": "c1", "burst:pool": "pool", "burst:token": "t1", cloud.TagJob: "7", "cost center": "a+b & c",
					} {
						if one.Tags[k] != v {
							t.Errorf("tag %q is %q, want %q", k, one.Tags[k], v)
						}
					}
					if got[i].ID != one.ID || got[i].Addr != one.Addr || one.Addr == "" || got[i].Offering != r.Offering {
						t.Errorf("Launch returned %+v, moto has %+v", got[i], one)
					}
				}
				if fleet == "never" {
					checkRun(t, m)
				} else {
					checkTemplate(t, m, p, r)
				}
			})
		}
	}
}

// checkRun looks at what moto keeps of RunInstances.
func checkRun(t *testing.T, m *mototest.Moto) {
	t.Helper()
	out, err := m.EC2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	i := out.Reservations[0].Instances[0]
	if o := i.MetadataOptions; o.HttpTokens != types.HttpTokensStateRequired || awssdk.ToInt32(o.HttpPutResponseHopLimit) != 1 || o.HttpEndpoint != types.InstanceMetadataEndpointStateEnabled {
		t.Errorf("metadata options are %+v", o)
	}
	if g := i.SecurityGroups; len(g) != 1 || awssdk.ToString(g[0].GroupId) != m.SecurityGroup {
		t.Errorf("security groups are %+v, want %s", g, m.SecurityGroup)
	}
	if awssdk.ToString(i.ImageId) != m.Image || awssdk.ToString(i.ClientToken) != "t1" {
		t.Errorf("image is %s, client token %s", awssdk.ToString(i.ImageId), awssdk.ToString(i.ClientToken))
	}
	volumes, err := m.EC2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
	if err != nil || len(volumes.Volumes) != 2 {
		t.Fatalf("volumes are %+v, %v, want 2", volumes, err)
	}
	for _, v := range volumes.Volumes {
		owned := slices.ContainsFunc(v.Tags, func(t types.Tag) bool {
			return awssdk.ToString(t.Key) == "burst:cluster" && awssdk.ToString(t.Value) == "c1"
		})
		if awssdk.ToInt32(v.Size) != 30 || v.VolumeType != types.VolumeTypeGp3 || !awssdk.ToBool(v.Encrypted) || !owned {
			t.Errorf("volume is %+v", v)
		}
	}
	b := i.BlockDeviceMappings
	if len(b) == 0 || awssdk.ToString(b[0].DeviceName) != "/dev/xvda" || !awssdk.ToBool(b[0].Ebs.DeleteOnTermination) {
		t.Errorf("block devices are %+v", b)
	}
}

// checkTemplate looks at what moto keeps of a fleet's template, as its
// instances have less of it.
func checkTemplate(t *testing.T, m *mototest.Moto, p *aws.Provider, r cloud.LaunchRequest) {
	t.Helper()
	out, err := m.EC2.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: awssdk.String("burst-c1-pool"), Versions: []string{"$Latest"},
	})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("template is %+v, %v", out, err)
	}
	d := out.LaunchTemplateVersions[0].LaunchTemplateData
	text, err := base64.StdEncoding.DecodeString(awssdk.ToString(d.UserData))
	if err != nil || string(text) != r.UserData || awssdk.ToString(d.ImageId) != m.Image {
		t.Errorf("template has image %s, user data %q, %v", awssdk.ToString(d.ImageId), text, err)
	}
	if o := d.MetadataOptions; o == nil || o.HttpTokens != types.LaunchTemplateHttpTokensStateRequired || awssdk.ToInt32(o.HttpPutResponseHopLimit) != 1 {
		t.Errorf("metadata options are %+v", o)
	}
	if !slices.Equal(d.SecurityGroupIds, []string{m.SecurityGroup}) {
		t.Errorf("security groups are %v", d.SecurityGroupIds)
	}
	if b := d.BlockDeviceMappings; len(b) != 1 || awssdk.ToString(b[0].DeviceName) != "/dev/xvda" || awssdk.ToInt32(b[0].Ebs.VolumeSize) != 30 || !awssdk.ToBool(b[0].Ebs.Encrypted) {
		t.Errorf("block devices are %+v", b)
	}
	if d.InstanceInitiatedShutdownBehavior != types.ShutdownBehaviorTerminate {
		t.Errorf("shutdown behavior is %q", d.InstanceInitiatedShutdownBehavior)
	}
}

// TestMotoListsPages: the pages that an emulator of others makes come together,
// and of several clusters each sees its own.
func TestMotoListsPages(t *testing.T) {
	m := startMoto(t)
	b := newBetween(t, m, 2) // moto counts launches
	p := over(t, b.url, onMoto(m, "always"))
	var want []string
	for _, token := range []string{"t1", "t2", "t3", "t4", "t5"} {
		for _, i := range launchOn(t, p, motoRequest(m, token)) {
			want = append(want, i.ID)
		}
	}
	other := motoRequest(m, "t1")
	other.Cluster = "c10"
	launchOn(t, p, other)
	slices.Sort(want)
	b.all()
	got, err := p.List(t.Context(), cloud.Filter{Cluster: "c1"})
	if err != nil || !slices.Equal(idsOf(got), want) {
		t.Errorf("listed %v, %v, want %v", idsOf(got), err, want)
	}
	if calls := b.made("DescribeInstances"); calls[0] != 3 {
		t.Errorf("read in %d pages, want 3", calls[0])
	}
	for cluster, n := range map[string]int{"c10": 2, "c?": 0, "c*": 0, "c": 0} {
		if got, err := p.List(t.Context(), cloud.Filter{Cluster: cluster}); err != nil || len(got) != n {
			t.Errorf("cluster %s has %v, %v, want %d", cluster, idsOf(got), err, n)
		}
	}
}

func TestMotoEndsAndNamesInstances(t *testing.T) {
	m := startMoto(t)
	p := over(t, m.Endpoint, onMoto(m, ""))
	got := launchOn(t, p, motoRequest(m, "t1"))
	if err := p.Assign(t.Context(), map[string]string{got[0].ID: "node-1", got[1].ID: "node-2"}); err != nil {
		t.Fatal(err)
	}
	named := func() bool {
		all := m.Instances(t)
		return all[0].Tags["Name"] == "node-1" && all[0].Tags["burst:node"] == "node-1" && all[1].Tags["Name"] == "node-2"
	}
	for until := time.Now().Add(10 * time.Second); !named(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("names are not written: %+v", m.Instances(t))
		}
	}
	listed, err := p.List(t.Context(), cloud.Filter{Cluster: "c1", IDs: []string{got[0].ID}})
	if err != nil || len(listed) != 1 || listed[0].Node != "node-1" || listed[0].State != cloud.Running {
		t.Errorf("listed %+v, %v", listed, err)
	}
	if err := p.Terminate(t.Context(), []string{got[0].ID, "i-0123456789abcdef0", got[1].ID}); err != nil {
		t.Fatal(err)
	}
	m.Terminate(t, got[0].ID)
	listed, err = p.List(t.Context(), cloud.Filter{Cluster: "c1"})
	if err != nil || len(listed) != 2 {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	for _, i := range listed {
		if i.State != cloud.Terminated || time.Since(i.Ended).Abs() > time.Minute || i.Ended.Before(i.Launched) {
			t.Errorf("a terminated instance is %+v", i)
		}
	}
}

func idsOf(all []cloud.Instance) []string {
	var ids []string
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}
