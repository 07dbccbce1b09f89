package aws

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
)

// recordedTypes answers with what EC2 said of six kinds of type.
func recordedTypes(t *testing.T) answer {
	text, err := os.ReadFile(filepath.Join("testdata", "instance-types.xml"))
	if err != nil {
		t.Fatal(err)
	}
	return func(url.Values, string) (int, string) { return http.StatusOK, string(text) }
}

// zonesOf answers that each type asked for is in the zones.
func zonesOf(zones ...string) answer {
	return func(form url.Values, body string) (int, string) {
		var items strings.Builder
		for _, name := range filtered(form, "instance-type") {
			for _, z := range zones {
				fmt.Fprintf(&items, "<item><instanceType>%s</instanceType><locationType>availability-zone</locationType><location>%s</location></item>", name, z)
			}
		}
		return fixed("<instanceTypeOfferingSet>"+items.String()+"</instanceTypeOfferingSet>")(form, body)
	}
}

func TestTypes(t *testing.T) {
	p, aws := answering(t, Config{}, map[string]answer{
		"DescribeInstanceTypes":         recordedTypes(t),
		"DescribeInstanceTypeOfferings": zonesOf("us-east-1b", "us-east-1a"),
	})
	names := []string{"p4d.24xlarge", "c6i.2xlarge", "inf1.xlarge", "hpc7g.16xlarge", "g6f.xlarge", "c6i.2xlarge"}
	zones := []string{"us-east-1a", "us-east-1b"}
	c6i := cloud.InstanceType{Name: "c6i.2xlarge", CPUs: 8, Cores: 4, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: "x86_64", Spot: true, Zones: zones}
	want := []cloud.InstanceType{
		{Name: "p4d.24xlarge", CPUs: 96, Cores: 48, ThreadsPerCore: 2, MemoryMiB: 1179648, GPUs: []cloud.GPU{{Name: "a100", Count: 8}}, Arch: "x86_64", EFACards: 4, Spot: true, Zones: zones},
		c6i,
		{Name: "inf1.xlarge", CPUs: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 8192, Arch: "x86_64", Spot: true, Zones: zones},
		{Name: "hpc7g.16xlarge", CPUs: 64, Cores: 64, ThreadsPerCore: 1, MemoryMiB: 131072, Arch: "arm64", EFACards: 1, Zones: zones},
		{Name: "g6f.xlarge", CPUs: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 16384, GPUs: []cloud.GPU{{Name: "l4", Count: 1}}, Arch: "x86_64", Spot: true, Zones: zones},
		c6i,
	}
	for range 2 { // the second time from memory
		got, err := p.Types(t.Context(), names)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("types %+v, want %+v", got, want)
		}
	}
	if n := aws.count("DescribeInstanceTypes") + aws.count("DescribeInstanceTypeOfferings"); n != 2 {
		t.Errorf("%d calls, want one of each kind", n)
	}
}

func TestTypesInBatches(t *testing.T) {
	vcpus := map[string]int{}
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("c%d.large", i))
		vcpus[names[i]] = 2
	}
	p, aws := answering(t, Config{}, map[string]answer{
		"DescribeInstanceTypes":         someTypes(vcpus),
		"DescribeInstanceTypeOfferings": zonesOf("us-east-1a"),
	})
	got, err := p.Types(t.Context(), names)
	if err != nil || len(got) != len(names) || got[249].Name != "c249.large" {
		t.Fatalf("%d types, error %v", len(got), err)
	}
	if n := aws.count("DescribeInstanceTypes"); n != 3 {
		t.Errorf("%d calls for 250 types, want 3", n)
	}
}

func TestTypesFail(t *testing.T) {
	for _, c := range []struct {
		name  string
		given map[string]answer
		kind  cloud.Kind
		want  string
	}{
		{"unknown", map[string]answer{"DescribeInstanceTypes": someTypes(map[string]int{"c6i.large": 2})}, cloud.Invalid, "no instance type c9z.large, m0.huge in us-east-1"},
		{"not allowed", map[string]answer{"DescribeInstanceTypes": refusal(403, "UnauthorizedOperation", "You are not authorized")}, cloud.Auth, "describing instance types"},
		{"zones not allowed", map[string]answer{
			"DescribeInstanceTypes":         someTypes(map[string]int{"c6i.large": 2, "c9z.large": 2, "m0.huge": 2}),
			"DescribeInstanceTypeOfferings": refusal(403, "UnauthorizedOperation", "You are not authorized"),
		}, cloud.Auth, "which zones offer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := answering(t, Config{}, c.given)
			_, err := p.Types(t.Context(), []string{"c6i.large", "c9z.large", "m0.huge", "c9z.large"})
			var ours *cloud.Error
			if !errors.As(err, &ours) || ours.Kind != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s with %q", err, c.kind, c.want)
			}
		})
	}
}

func TestGresName(t *testing.T) {
	for name, want := range map[string]string{
		"A100": "a100", "A10G": "a10g", "L40S": "l40s", "T4g": "t4g",
		"Radeon Pro V520": "radeon-pro-v520", " RTX PRO Server 6000 ": "rtx-pro-server-6000", "": "", "--": "",
	} {
		if got := gresName(name); got != want {
			t.Errorf("gresName(%q) = %q, want %q", name, got, want)
		}
	}
}
