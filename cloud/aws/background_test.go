package aws

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

func TestAssign(t *testing.T) {
	p, a := answering(t, Config{}, nil)
	tags := make(chan string, 100)
	a.set("CreateTags", func(form url.Values, body string) (int, string) {
		tags <- form.Get("ResourceId.1") + " " + form.Get("Tag.1.Key") + "=" + form.Get("Tag.1.Value") + " " + form.Get("Tag.2.Key") + "=" + form.Get("Tag.2.Value")
		return fixed("<return>true</return>")(form, body)
	})
	nodes := map[string]string{}
	var want []string
	for i := range 20 {
		nodes[fmt.Sprintf("i-%02d", i)] = fmt.Sprintf("n%d", i)
		want = append(want, fmt.Sprintf("i-%02d Name=n%d burst:node=n%d", i, i, i))
	}
	if err := p.Assign(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range nodes {
		select {
		case one := <-tags:
			got = append(got, one)
		case <-time.After(10 * time.Second):
			t.Fatalf("named are %q, and no more for 10 s", got)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Without permission, a thousand names are not a thousand refused calls.
func TestAssignNotAllowed(t *testing.T) {
	p, _ := answering(t, Config{}, map[string]answer{"CreateTags": refusal(403, "UnauthorizedOperation", "no")})
	if err := p.tag(t.Context(), "i-1", "n"); err == nil || !p.names.Hopeless(err) {
		t.Errorf("%v is worth another call", err)
	}
	p, _ = answering(t, Config{}, map[string]answer{"CreateTags": refusal(400, "InvalidInstanceID.NotFound", "no")})
	if err := p.tag(t.Context(), "i-1", "n"); err == nil || p.names.Hopeless(err) {
		t.Errorf("%v is worth no other call", err)
	}
}

// TestListThrottledOnALaterPage: half a list would make the other half look gone.
func TestListThrottledOnALaterPage(t *testing.T) {
	p, a := answering(t, Config{}, nil)
	refused := false
	a.set("DescribeInstances", func(form url.Values, body string) (int, string) {
		switch page := form.Get("NextToken"); {
		case page == "":
			return fixed(`<reservationSet><item><instancesSet>`+machines("running", "i-1")+`</instancesSet></item></reservationSet><nextToken>2</nextToken>`)(form, body)
		case !refused:
			refused = true
			return refusal(503, "RequestLimitExceeded", "Request limit exceeded.")(form, body)
		}
		return described(machines("stopped", "i-2"))(form, body)
	})
	if got, err := p.List(t.Context(), cloud.Filter{Cluster: "c"}); len(got) > 0 || cloud.KindOf(err) != cloud.Throttled {
		t.Errorf("%d instances, %v; want none and that it is throttled", len(got), err)
	}
	if got, err := p.List(t.Context(), cloud.Filter{Cluster: "c"}); len(got) != 2 || err != nil {
		t.Errorf("the next list has %d instances, %v; want both", len(got), err)
	}
}

func TestTidyTemplates(t *testing.T) {
	old, young := "2020-01-01T00:00:00Z", time.Now().UTC().Format(time.RFC3339)
	version := func(n int, made string) string {
		return fmt.Sprintf("<item><launchTemplateId>lt-p</launchTemplateId><versionNumber>%d</versionNumber><createTime>%s</createTime></item>", n, made)
	}
	item := func(pool string, latest int) string {
		return fmt.Sprintf(`<item><launchTemplateId>lt-%s</launchTemplateId><launchTemplateName>burst-c-%s</launchTemplateName><defaultVersionNumber>1</defaultVersionNumber>
<latestVersionNumber>%d</latestVersionNumber><tagSet><item><key>burst:pool</key><value>%s</value></item></tagSet></item>`, pool, pool, latest, pool)
	}
	p, a := answering(t, Config{}, map[string]answer{
		"DescribeLaunchTemplates":        fixed("<launchTemplates>" + item("p", 4) + item("gone", 1) + "</launchTemplates>"),
		"DescribeLaunchTemplateVersions": fixed("<launchTemplateVersionSet>" + version(1, old) + version(2, old) + version(3, young) + version(4, old) + "</launchTemplateVersionSet>"),
		"DescribePlacementGroups":        fixed("<placementGroupSet/>"),
	})
	var calls []string
	for _, action := range []string{"DeleteLaunchTemplate", "DeleteLaunchTemplateVersions", "ModifyLaunchTemplate"} {
		a.set(action, func(form url.Values, body string) (int, string) {
			calls = append(calls, strings.TrimSpace(action+" "+form.Get("LaunchTemplateId")+" "+strings.Join(values(form, "LaunchTemplateVersion"), ",")+form.Get("SetDefaultVersion")))
			return fixed("")(form, body)
		})
	}
	// What a launch that is repeated after a restart may name is not known yet.
	if err := p.Tidy(t.Context(), "c", []string{"p", "gone"}); err != nil || len(calls) > 0 {
		t.Errorf("just started: %q, %v", calls, err)
	}
	p.started = time.Now().Add(-2 * unused)
	p.templates.of("burst-c-p").used["2"] = time.Now()
	if err := p.Tidy(t.Context(), "c", []string{"p"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"ModifyLaunchTemplate lt-p 4", "DeleteLaunchTemplateVersions lt-p 1", "DeleteLaunchTemplate lt-gone"}
	if !slices.Equal(calls, want) {
		t.Errorf("got %q, want %q", calls, want)
	}
}

// An emulator without placement groups is asked for them only if a pool wants one.
func TestTidyWithoutPlacementGroups(t *testing.T) {
	for name, c := range map[string]struct {
		placement string
		asked     int
	}{"none wanted": {"", 0}, "one wanted": {"cluster", 1}} {
		t.Run(name, func(t *testing.T) {
			p, a := answering(t, Config{Pools: map[string]Pool{"p": {Placement: c.placement}}}, map[string]answer{
				"DescribeLaunchTemplates": fixed("<launchTemplates/>"),
				"DescribePlacementGroups": func(url.Values, string) (int, string) { return 500, "<html>not implemented</html>" },
			})
			err := p.Tidy(t.Context(), "c", []string{"p"})
			if n := a.count("DescribePlacementGroups"); n != c.asked || (err != nil) != (c.asked > 0) {
				t.Errorf("asked %d times, %v", n, err)
			}
		})
	}
}

func TestTidyPlacement(t *testing.T) {
	p, a := answering(t, Config{Pools: map[string]Pool{"p": {Placement: "cluster"}}}, map[string]answer{
		"DescribeLaunchTemplates": fixed("<launchTemplates/>"),
		"DescribePlacementGroups": fixed("<placementGroupSet><item><groupName>burst-c-p</groupName></item></placementGroupSet>"),
		"DeletePlacementGroup":    fixed("<return>true</return>"),
	})
	full, empty := described(machines("running", "i-1")), described()
	g := p.placements.of("burst-c-p")
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, tt := range []struct {
		name    string
		inside  answer
		seen    time.Time // empty before
		used    time.Time
		removed bool
	}{
		{"in use", full, ago(2 * unused), time.Time{}, false},
		{"empty for the first time", empty, time.Time{}, time.Time{}, false},
		{"empty for a while", empty, ago(unused / 2), time.Time{}, false},
		{"empty, and a launch is on its way", empty, ago(2 * unused), ago(time.Minute), false},
		{"empty for long", empty, ago(2 * unused), ago(2 * unused), true},
	} {
		a.set("DescribeInstances", tt.inside)
		g.empty, g.used, g.there = tt.seen, tt.used, true
		if err := p.Tidy(t.Context(), "c", nil); err != nil {
			t.Fatal(err)
		}
		if removed := !g.there; removed != tt.removed {
			t.Errorf("%s: removed %v", tt.name, removed)
		}
	}
}

func TestOldVersions(t *testing.T) {
	at := time.Now()
	version := func(n int64, made *time.Time) types.LaunchTemplateVersion {
		return types.LaunchTemplateVersion{VersionNumber: aws.Int64(n), CreateTime: made}
	}
	before := at.Add(-time.Minute)
	all := []types.LaunchTemplateVersion{version(3, &before), version(1, &before), version(2, nil)}
	if got := oldVersions(all, at); !slices.Equal(got, []string{"1"}) {
		t.Errorf("old are %v", got)
	}
}
