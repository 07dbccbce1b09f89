package aws_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/mototest"
)

// TestMotoKeepsTemplates: one template for a pool's launches, one version for
// each of its contents, also after a restart; and no template for a pool that is gone.
func TestMotoKeepsTemplates(t *testing.T) {
	m := startMoto(t)
	b := newBetween(t, m, 0)
	first := over(t, b.url, onMoto(m, "always"))
	for _, token := range []string{"t1", "t2", "t3"} {
		launchOn(t, first, motoRequest(m, token))
	}
	making := []string{"CreateFleet", "CreateLaunchTemplate", "CreateLaunchTemplateVersion"}
	if got := b.made(making...); !slices.Equal(got, []int{3, 1, 0}) {
		t.Errorf("3 launches made %v calls of %v", got, making)
	}
	launchOn(t, over(t, b.url, onMoto(m, "always")), motoRequest(m, "t4"))
	if got := b.made(making...); !slices.Equal(got, []int{1, 1, 0}) { // EC2 says that it is there
		t.Errorf("a launch after a restart made %v calls of %v", got, making)
	}
	larger := onMoto(m, "always")
	larger.Root.GiB = 60
	changed := over(t, b.url, larger)
	launchOn(t, changed, motoRequest(m, "t5"))
	launchOn(t, changed, motoRequest(m, "t6"))
	if got := b.made(making...); !slices.Equal(got, []int{2, 1, 1}) {
		t.Errorf("2 launches of the changed pool made %v calls of %v", got, making)
	}
	if got := versions(t, m); !slices.Equal(got, []string{"1: 30 GiB", "2: 60 GiB"}) {
		t.Errorf("versions are %v", got)
	}

	tidy(t, changed, []string{"pool"})
	if got := versions(t, m); len(got) != 2 { // a version is kept for an hour
		t.Errorf("after tidying with the pool: %v", got)
	}
	tidy(t, changed, []string{"another"})
	if got := versions(t, m); len(got) != 0 {
		t.Errorf("after tidying without the pool: %v", got)
	}
	for _, i := range m.Instances(t) {
		if i.State != "running" {
			t.Errorf("tidying left instance %s %s", i.ID, i.State)
		}
	}
	launchOn(t, changed, motoRequest(m, "t7")) // makes it anew
}

func tidy(t *testing.T, p *aws.Provider, pools []string) {
	t.Helper()
	if err := p.Tidy(t.Context(), "c1", pools); err != nil {
		t.Errorf("tidying: %v", err)
	}
}

// versions are those of the pool's template, with the size of the root volume.
func versions(t *testing.T, m *mototest.Moto) []string {
	t.Helper()
	templates, err := m.EC2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, one := range templates.LaunchTemplates {
		out, err := m.EC2.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: one.LaunchTemplateId})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range out.LaunchTemplateVersions {
			size := awssdk.ToInt32(v.LaunchTemplateData.BlockDeviceMappings[0].Ebs.VolumeSize)
			all = append(all, fmt.Sprintf("%d: %d GiB", awssdk.ToInt64(v.VersionNumber), size))
		}
	}
	slices.Sort(all)
	return all
}

// TestMotoKnowsTypes reads types that moto has copied from AWS.
func TestMotoKnowsTypes(t *testing.T) {
	m := startMoto(t)
	p := over(t, m.Endpoint, onMoto(m, ""))
	want := []cloud.InstanceType{
		{Name: "c6i.large", CPUs: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 4 << 10, Arch: "x86_64", Spot: true},
		{Name: "c6g.large", CPUs: 2, Cores: 2, ThreadsPerCore: 1, MemoryMiB: 4 << 10, Arch: "arm64", Spot: true},
		{Name: "c5n.18xlarge", CPUs: 72, Cores: 36, ThreadsPerCore: 2, MemoryMiB: 192 << 10, Arch: "x86_64", EFACards: 1, Spot: true},
		{Name: "p4d.24xlarge", CPUs: 96, Cores: 48, ThreadsPerCore: 2, MemoryMiB: 1152 << 10, Arch: "x86_64", EFACards: 4, Spot: true, GPUs: []cloud.GPU{{Name: "a100", Count: 8}}},
		{Name: "hpc6a.48xlarge", CPUs: 96, Cores: 96, ThreadsPerCore: 1, MemoryMiB: 384 << 10, Arch: "x86_64", EFACards: 1},
	}
	var names []string
	for _, w := range want {
		names = append(names, w.Name)
	}
	got, err := p.Types(t.Context(), names)
	if err != nil || len(got) != len(want) {
		t.Fatalf("types are %+v, %v", got, err)
	}
	for i, w := range want {
		if sold := w.Name != "hpc6a.48xlarge"; sold != slices.Contains(got[i].Zones, "us-east-1a") {
			t.Errorf("%s is offered in %v", w.Name, got[i].Zones)
		}
		if got[i].Zones = nil; !reflect.DeepEqual(got[i], w) {
			t.Errorf("type is %+v, want %+v", got[i], w)
		}
	}
	if _, err := p.Types(t.Context(), []string{"c6i.large", "c99.huge"}); cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "c99.huge") {
		t.Errorf("error is %v, want an invalid one that names c99.huge", err)
	}
}

// TestMotoTellsPrices: spot prices are moto's, on-demand ones of the table, as
// moto has no price list.
func TestMotoTellsPrices(t *testing.T) {
	m := startMoto(t)
	p := over(t, m.Endpoint, onMoto(m, ""))
	spot := cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.Spot}
	demand := cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}
	// Of the last one nobody tells: it is in no table, and moto has no prices. The others are told beside the error.
	for _, all := range [][]cloud.Offering{{spot, demand}, {spot, demand, {Type: "c99.huge", Market: cloud.OnDemand}}} {
		got, err := p.Prices(t.Context(), all)
		if (err == nil) != (len(all) == 2) || len(got) != 2 || got[0].Offering != spot || got[1].Offering != demand {
			t.Fatalf("prices are %+v, %v", got, err)
		}
		if got[0].Source != "spot-history" || got[0].USDPerHour <= 0 || got[1].Source != "table" || got[1].USDPerHour <= 0 {
			t.Errorf("prices are %+v", got)
		}
	}
}

// TestMotoIsChecked checks pools that are each wrong in one thing.
func TestMotoIsChecked(t *testing.T) {
	m := startMoto(t)
	vpc, err := m.EC2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: awssdk.String("10.77.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := m.EC2.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
		VpcId: vpc.Vpc.VpcId, CidrBlock: awssdk.String("10.77.0.0/20"), AvailabilityZone: &m.Subnets[0].Zone,
	})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := *subnet.Subnet.SubnetId
	tests := []struct {
		name   string // of the pool
		change func(*aws.Pool, *aws.CheckPool)
		want   string // part of what is wrong; "": nothing
	}{
		{"all is well", func(*aws.Pool, *aws.CheckPool) {}, ""},
		{"an unknown type", func(_ *aws.Pool, c *aws.CheckPool) { c.Offerings[0].Type = "c99.huge" }, "no type c99.huge"},
		{"an image of another architecture", func(_ *aws.Pool, c *aws.CheckPool) { c.Image = m.ImageARM }, "is for arm64"},
		{"an image that is not there", func(_ *aws.Pool, c *aws.CheckPool) { c.Image = "ami-0123456789abcdef0" }, "ami-0123456789abcdef0"},
		{"a parameter that is not there", func(_ *aws.Pool, c *aws.CheckPool) { c.Image = "ssm:/no/such" }, "/no/such"},
		{"a zone without a subnet", func(_ *aws.Pool, c *aws.CheckPool) { c.Offerings[0].Zone = "us-east-1c" }, "no subnet of the pool is in us-east-1c"},
		{"a zone without the type", func(_ *aws.Pool, c *aws.CheckPool) { c.Offerings[0].Type = "hpc6a.48xlarge" }, "is not offered in us-east-1a"},
		{"a subnet of another VPC", func(p *aws.Pool, _ *aws.CheckPool) { p.Subnets = []string{elsewhere} }, *vpc.Vpc.VpcId},
		{"subnets of two VPCs", func(p *aws.Pool, _ *aws.CheckPool) { p.Subnets[1] = elsewhere }, "several VPCs"},
		{"a subnet that is not there", func(p *aws.Pool, _ *aws.CheckPool) { p.Subnets[1] = "subnet-0123456789abcdef0" }, "subnet-0123456789abcdef0 does not exist"},
		{"a security group that is not there", func(p *aws.Pool, _ *aws.CheckPool) { p.SecurityGroups[0] = "sg-0123456789abcdef0" }, "sg-0123456789abcdef0"},
		{"a key that is not there", func(p *aws.Pool, _ *aws.CheckPool) { p.Key = "nobody" }, `"nobody" does not exist`},
		{"EFA on a type without", func(p *aws.Pool, _ *aws.CheckPool) { p.EFA = true }, "has no EFA"},
	}
	pools, checks := map[string]aws.Pool{}, []aws.CheckPool{}
	for _, tt := range tests {
		pool := onMoto(m, "")
		check := aws.CheckPool{Name: tt.name, Image: "ssm:" + m.Parameter, Nodes: 10, Offerings: []cloud.Offering{
			{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand},
		}}
		tt.change(&pool, &check)
		pools[tt.name], checks = pool, append(checks, check)
	}
	p, err := aws.New(t.Context(), aws.Config{Name: "test", Region: mototest.Region, Endpoint: m.Endpoint, Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	findings := p.Check(t.Context(), "c1", checks)
	of := func(subject string, level aws.Level) []string {
		var texts []string
		for _, f := range findings {
			if strings.HasPrefix(f.Subject, subject) && f.Level == level {
				texts = append(texts, f.Subject+": "+f.Text)
			}
		}
		return texts
	}
	for _, tt := range tests {
		said := strings.Join(of("pool "+tt.name+":", aws.LevelWrong), "\n")
		if tt.want == "" && said != "" || !strings.Contains(said, tt.want) {
			t.Errorf("%s: what is wrong is\n%s\nwant %q", tt.name, said, tt.want)
		}
	}
	for _, subject := range []string{"credentials", "clock", "endpoint", "permission"} {
		if wrong := of(subject, aws.LevelWrong); len(of(subject, aws.LevelOK)) == 0 || len(wrong) > 0 {
			t.Errorf("%s is not ok: %q", subject, wrong)
		}
	}
	if left := m.Instances(t); len(left) != 0 {
		t.Errorf("checking has launched %+v", left)
	}
}
