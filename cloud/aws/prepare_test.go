package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
)

func TestPlan(t *testing.T) {
	k := known{
		zones: map[string]string{"subnet-a": "us-east-1a", "subnet-a2": "us-east-1a", "subnet-b": "us-east-1b"},
		types: map[string]typeFacts{
			"c6i.2xlarge":  {cores: 4, threads: 2},
			"c5.2xlarge":   {cores: 4, threads: 2},
			"c6i.4xlarge":  {cores: 8, threads: 2},
			"hpc6a":        {cores: 96, threads: 1, efa: true, cards: []string{"efa"}},
			"p4d.24xlarge": {cores: 48, threads: 2, efa: true, cards: []string{"efa", "efa", "efa", "efa"}},
		},
		devices: map[string]image{"ami-1": {root: "/dev/xvda", kept: []string{"/dev/sdb"}}},
	}
	subnets := []string{"subnet-a", "subnet-a2", "subnet-b"}
	at := func(kind, zone string) cloud.Offering {
		return cloud.Offering{Type: kind, Zone: zone, Market: cloud.OnDemand}
	}
	for _, tt := range []struct {
		name      string
		pool      Pool
		offerings []cloud.Offering
		subnets   []string // of the targets
		hardware  hardware
		skipped   int
		err       string
	}{
		{name: "a zone has its first subnet", pool: Pool{Subnets: subnets}, offerings: []cloud.Offering{onDemandA, onDemandB}, subnets: []string{"subnet-a", "subnet-b"}},
		{name: "any zone", pool: Pool{Subnets: subnets}, offerings: []cloud.Offering{at("c5.2xlarge", "")}, subnets: []string{"subnet-a", "subnet-b"}},
		{name: "a zone without a subnet is left out", pool: Pool{Subnets: subnets}, offerings: []cloud.Offering{at("c5.2xlarge", "us-east-1c"), onDemandB}, subnets: []string{"subnet-b"}, skipped: 1},
		{name: "no subnet at all", pool: Pool{Subnets: subnets}, offerings: []cloud.Offering{at("c5.2xlarge", "us-east-1c")}, err: "no subnet of the pool is in zone us-east-1c: they are in us-east-1a, us-east-1b"},
		{name: "unknown subnet", pool: Pool{Subnets: []string{"subnet-x"}}, offerings: []cloud.Offering{onDemandA}, err: "subnets subnet-x do not exist"},
		{name: "no subnet written", offerings: []cloud.Offering{onDemandA}, err: "names no subnet"},
		{name: "threads off", pool: Pool{Subnets: subnets, ThreadsPerCore: 1}, offerings: []cloud.Offering{onDemandA, onDemandB}, subnets: []string{"subnet-a", "subnet-b"}, hardware: hardware{Cores: 4, Threads: 1}},
		{name: "threads off where there are none", pool: Pool{Subnets: subnets, ThreadsPerCore: 1}, offerings: []cloud.Offering{at("hpc6a", "us-east-1a")}, subnets: []string{"subnet-a"}},
		{name: "more threads than there are", pool: Pool{Subnets: subnets, ThreadsPerCore: 2}, offerings: []cloud.Offering{at("hpc6a", "us-east-1a")}, err: "has 1 thread per core"},
		{name: "other cores cannot share", pool: Pool{Subnets: subnets, ThreadsPerCore: 1}, offerings: []cloud.Offering{onDemandA, at("c6i.4xlarge", "us-east-1b")}, subnets: []string{"subnet-a"}, hardware: hardware{Cores: 4, Threads: 1}, skipped: 1},
		{name: "all EFA cards", pool: Pool{Subnets: subnets, EFA: true}, offerings: []cloud.Offering{at("p4d.24xlarge", "us-east-1a")}, subnets: []string{"subnet-a"}, hardware: hardware{Cards: []string{"efa", "efa", "efa", "efa"}}},
		{name: "no EFA", pool: Pool{Subnets: subnets, EFA: true}, offerings: []cloud.Offering{onDemandA}, err: "the type has no EFA"},
		{name: "public address and several cards", pool: Pool{Subnets: subnets, EFA: true, PublicIP: true}, offerings: []cloud.Offering{at("p4d.24xlarge", "us-east-1a")}, err: "public address"},
		{name: "unknown type", pool: Pool{Subnets: subnets, EFA: true}, offerings: []cloud.Offering{at("x9.large", "us-east-1a")}, err: "no such type"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &cloud.LaunchRequest{Cluster: "c", Pool: "p", Offering: tt.offerings[0], Or: tt.offerings[1:], Image: "ami-1"}
			skipped := 0
			s, err := plan(r, tt.pool, k, func(string, error) { skipped++ })
			if tt.err != "" {
				all := cloud.Errors(err)
				if len(all) != 1 || all[0].Kind != cloud.Invalid || all[0].Offering != tt.offerings[0] || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q, invalid, about %s", err, tt.err, tt.offerings[0])
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, to := range s.Targets {
				got = append(got, to.Subnet)
			}
			if !slices.Equal(got, tt.subnets) || !s.hardware.equal(tt.hardware) || skipped != tt.skipped {
				t.Errorf("subnets %v, %+v, %d skipped", got, s.hardware, skipped)
			}
			if want := []volume{{Device: "/dev/xvda"}, {Device: "/dev/sdb"}}; !reflect.DeepEqual(s.Volumes, want) {
				t.Errorf("volumes %+v, want %+v", s.Volumes, want)
			}
			if r.Offering != s.Targets[0].Offering {
				t.Errorf("the request is for %s, its first target for %s", r.Offering, s.Targets[0].Offering)
			}
		})
	}
}

// account is what most tests need of EC2.
func account() map[string]answer {
	return map[string]answer{
		"DescribeSubnets": fixed(`<subnetSet><item><subnetId>subnet-a</subnetId><availabilityZone>us-east-1a</availabilityZone></item>
<item><subnetId>subnet-b</subnetId><availabilityZone>us-east-1b</availabilityZone></item></subnetSet>`),
		"DescribeImages":              fixed(`<imagesSet><item><imageId>ami-1</imageId><rootDeviceName>/dev/xvda</rootDeviceName></item></imagesSet>`),
		"CreateLaunchTemplate":        fixed(`<launchTemplate><launchTemplateId>lt-1</launchTemplateId><latestVersionNumber>1</latestVersionNumber></launchTemplate>`),
		"CreateLaunchTemplateVersion": fixed(`<launchTemplateVersion><launchTemplateId>lt-1</launchTemplateId><versionNumber>2</versionNumber></launchTemplateVersion>`),
		"CreatePlacementGroup":        fixed(`<return>true</return>`),
		"DescribeInstances":           fixed(`<reservationSet/>`),
	}
}

func accountPools() map[string]Pool {
	return map[string]Pool{
		"p":      {Subnets: []string{"subnet-a", "subnet-b"}},
		"group":  {Subnets: []string{"subnet-a"}, Placement: "cluster"},
		"fleets": {Subnets: []string{"subnet-a"}, Fleet: "always"},
		"single": {Subnets: []string{"subnet-a", "subnet-b"}, Fleet: "never"},
	}
}

func request(token, pool string, n int, offerings ...cloud.Offering) cloud.LaunchRequest {
	if len(offerings) == 0 {
		offerings = []cloud.Offering{onDemandA}
	}
	return cloud.LaunchRequest{Token: token, Cluster: "c", Pool: pool, Count: n, Image: "ami-1", Offering: offerings[0], Or: offerings[1:]}
}

func specOf(t *testing.T, r cloud.LaunchRequest) spec {
	t.Helper()
	var s spec
	if err := json.Unmarshal(r.Spec, &s); err != nil {
		t.Fatalf("spec %q: %v", r.Spec, err)
	}
	return s
}

func TestPrepareShares(t *testing.T) {
	for _, tt := range []struct {
		name  string
		round []cloud.LaunchRequest
		run   int // launches by RunInstances, the first ones
	}{
		{"one", []cloud.LaunchRequest{request("a", "p", 1000)}, 1},
		{"past the instances", []cloud.LaunchRequest{request("a", "p", 1000), request("b", "p", 100)}, 1},
		{"a choice is a fleet's", []cloud.LaunchRequest{request("a", "p", 1, onDemandA, onDemandB)}, 0},
		{"a choice, and never a fleet", []cloud.LaunchRequest{request("a", "single", 1, onDemandA, onDemandB)}, 1},
		{"always a fleet", []cloud.LaunchRequest{request("a", "fleets", 1)}, 0},
		{"twenty at once", slices.Repeat([]cloud.LaunchRequest{request("a", "p", 50)}, 20), 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, a := answering(t, Config{Pools: accountPools()}, account())
			for i, err := range p.Prepare(t.Context(), tt.round) {
				want := byCreateFleet
				if i < tt.run {
					want = byRunInstances
				}
				if err != nil {
					t.Fatal(err)
				}
				if s := specOf(t, tt.round[i]); s.API != want || (s.Template != nil) != (want == byCreateFleet) {
					t.Errorf("launch %d: %s with template %v, want %s", i+1, s.API, s.Template, want)
				}
			}
			for action, most := range map[string]int{"DescribeSubnets": 1, "DescribeImages": 1, "CreateLaunchTemplate": 1, "CreateLaunchTemplateVersion": 0} {
				if n := a.count(action); n > most {
					t.Errorf("%d × %s, want at most %d", n, action, most)
				}
			}
			if again := slices.Clone(tt.round); p.Prepare(t.Context(), again)[0] != nil || a.count("DescribeSubnets") != 1 {
				t.Error("what is known is asked again")
			}
		})
	}
}

func TestPrepareRefuses(t *testing.T) {
	long := request("a", "p", 1)
	long.UserData = strings.Repeat("x", maxUserData+1)
	tagged := request("a", "p", 1)
	tagged.Tags = map[string]string{}
	for i := range 48 {
		tagged.Tags[fmt.Sprint(i)] = ""
	}
	lost := request("a", "p", 1)
	lost.Image = "ami-2"
	for _, tt := range []struct {
		name string
		r    cloud.LaunchRequest
		want string
	}{
		{"unknown pool", request("a", "q", 1), `no pool "q"`},
		{"no token", request("", "p", 1), "token"},
		{"too many", request("a", "p", 1001), "at most 1000"},
		{"user data", long, "16385 bytes"},
		{"tags", tagged, "51 tags"},
		{"image", lost, "ami-2 does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, a := answering(t, Config{Pools: accountPools()}, account())
			round := []cloud.LaunchRequest{tt.r, request("b", "p", 1)}
			errs := p.Prepare(t.Context(), round)
			if cloud.KindOf(errs[0]) != cloud.Invalid || !strings.Contains(errs[0].Error(), tt.want) {
				t.Errorf("got %v, want %q", errs[0], tt.want)
			}
			if errs[1] != nil {
				t.Errorf("the round's other launch: %v", errs[1])
			}
			if _, err := p.Launch(t.Context(), tt.r); cloud.KindOf(err) != cloud.Invalid || a.count("RunInstances") != 0 {
				t.Errorf("launched: %v", err)
			}
		})
	}
}

func TestPrepareTemplates(t *testing.T) {
	p, a := answering(t, Config{Pools: accountPools()}, account())
	prepare := func(data string) template {
		t.Helper()
		round := []cloud.LaunchRequest{request("a", "fleets", 1)}
		round[0].UserData = data
		if err := p.Prepare(t.Context(), round)[0]; err != nil {
			t.Fatal(err)
		}
		return *specOf(t, round[0]).Template
	}
	first := prepare("one")
	if again := prepare("one"); first != (template{"lt-1", "1"}) || again != first || a.count("CreateLaunchTemplate") != 1 {
		t.Errorf("got %v, then %v", first, again)
	}
	if second := prepare("two"); second != (template{"lt-1", "2"}) {
		t.Errorf("a change is %v, not version 2", second)
	}

	// After a restart, the name is taken and its versions are found by their content.
	var hash string
	a.set("CreateLaunchTemplate", func(form url.Values, body string) (int, string) {
		hash = form.Get("VersionDescription")
		return refusal(400, "InvalidLaunchTemplateName.AlreadyExistsException", "")(form, body)
	})
	a.set("DescribeLaunchTemplateVersions", func(form url.Values, body string) (int, string) {
		return fixed(fmt.Sprintf(`<launchTemplateVersionSet><item><launchTemplateId>lt-1</launchTemplateId><versionNumber>7</versionNumber><versionDescription>%s</versionDescription></item></launchTemplateVersionSet>`, hash))(form, body)
	})
	p.templates.forget(sharedName("c", "fleets"))
	if found := prepare("one"); found != (template{"lt-1", "7"}) {
		t.Errorf("found %v, want version 7", found)
	}
}

func TestPreparePlacement(t *testing.T) {
	p, a := answering(t, Config{Pools: accountPools()}, account())
	round := []cloud.LaunchRequest{request("a", "group", 1), request("b", "group", 1)}
	for i, err := range p.Prepare(t.Context(), round) {
		if err != nil {
			t.Fatal(err)
		}
		if s := specOf(t, round[i]); s.Placement != "burst-c-group-us-east-1a" {
			t.Errorf("placement %q", s.Placement)
		}
	}
	if n := a.count("CreatePlacementGroup"); n != 1 {
		t.Errorf("the group is made %d times", n)
	}
	a.set("CreatePlacementGroup", refusal(400, "InvalidPlacementGroup.Duplicate", "exists"))
	p.placements.forget("burst-c-group-us-east-1a")
	if err := p.Prepare(t.Context(), round)[0]; err != nil {
		t.Errorf("a group that is there: %v", err)
	}
}

// A pool that tries spot first has a reservation for its on-demand instances alone.
func TestReservationIsOnDemand(t *testing.T) {
	p, _ := answering(t, Config{Pools: map[string]Pool{"p": {Subnets: []string{"subnet-a"}, Reservation: "cr-1"}}}, account())
	round := []cloud.LaunchRequest{request("a", "p", 1, onDemandA), request("b", "p", 1, spotA)}
	if err := errors.Join(p.Prepare(t.Context(), round)...); err != nil {
		t.Fatal(err)
	}
	if od, spot := specOf(t, round[0]).Reservation, specOf(t, round[1]).Reservation; od != "cr-1" || spot != "" {
		t.Errorf("on-demand in %q, spot in %q", od, spot)
	}
}

// A cluster placement group is in one zone: a launch that may go to several
// names that of each.
func TestPlacementInSeveralZones(t *testing.T) {
	pools := map[string]Pool{
		"choice": {Subnets: []string{"subnet-a", "subnet-b"}, Placement: "cluster"},
		"run":    {Subnets: []string{"subnet-a", "subnet-b"}, Placement: "cluster", Fleet: "never"},
	}
	p, a := answering(t, Config{Pools: pools}, account())
	round := []cloud.LaunchRequest{request("a", "choice", 2, onDemandA, onDemandB), request("b", "run", 2, onDemandB, onDemandA)}
	if err := errors.Join(p.Prepare(t.Context(), round)...); err != nil {
		t.Fatal(err)
	}
	if n := a.count("CreatePlacementGroup"); n != 4 {
		t.Errorf("%d groups made, want one for each pool and zone", n)
	}
	fleet := fleetRequest(round[0], specOf(t, round[0])).LaunchTemplateConfigs[0].Overrides
	for i, want := range []string{"burst-c-choice-us-east-1a", "burst-c-choice-us-east-1b"} {
		if fleet[i].Placement == nil || *fleet[i].Placement.GroupName != want {
			t.Errorf("override %d is in %+v, want %s", i, fleet[i].Placement, want)
		}
	}
	if d := specOf(t, round[0]).data(round[0]); d.Placement != nil {
		t.Errorf("the template is in group %s, whatever the zone", *d.Placement.GroupName)
	}
	run, err := runRequest(round[1], specOf(t, round[1]))
	if err != nil || run.Placement == nil || *run.Placement.GroupName != "burst-c-run-us-east-1b" {
		t.Errorf("RunInstances is in %+v, %v", run.Placement, err)
	}
}
