package aws

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

func TestQuotaCode(t *testing.T) {
	for _, c := range []struct{ name, onDemand, spot string }{
		{"c6i.large", "L-1216C47A", "L-34B43A08"},
		{"im4gn.large", "L-1216C47A", "L-34B43A08"},
		{"z1d.metal", "L-1216C47A", "L-34B43A08"},
		{"dl1.24xlarge", "L-6E869C2A", "L-85EED4F7"},
		{"d3.xlarge", "L-1216C47A", "L-34B43A08"},
		{"f2.6xlarge", "L-74FC7D96", "L-88CF9481"},
		{"g5.xlarge", "L-DB2E81BA", "L-3819A6DF"},
		{"gr6.4xlarge", "L-DB2E81BA", "L-3819A6DF"},
		{"vt1.3xlarge", "L-DB2E81BA", "L-3819A6DF"},
		{"hpc7a.96xlarge", "L-F7808C92", ""},
		{"h1.2xlarge", "L-1216C47A", "L-34B43A08"},
		{"inf2.xlarge", "L-1945791B", "L-B5D1601B"},
		{"trn1n.32xlarge", "L-2C3B7624", "L-6B0D517C"},
		{"t3.micro", "L-1216C47A", "L-34B43A08"},
		{"p4d.24xlarge", "L-417A185B", "L-7212CCBC"},
		{"p5en.48xlarge", "L-417A185B", "L-C4BD4855"},
		{"p6-b200.48xlarge", "L-417A185B", ""},
		{"p", "L-417A185B", ""},
		{"u-6tb1.metal", "L-43DA4232", ""},
		{"u7i-12tb.224xlarge", "L-43DA4232", ""},
		{"x2idn.16xlarge", "L-7295265B", "L-E3A00192"},
		{"mac2.metal", "", ""},
		{"", "", ""},
		{"42", "", ""},
		{"quux.large", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := quotaCode(c.name, cloud.OnDemand); got != c.onDemand {
				t.Errorf("on-demand %q, want %q", got, c.onDemand)
			}
			if got := quotaCode(c.name, cloud.Spot); got != c.spot {
				t.Errorf("spot %q, want %q", got, c.spot)
			}
		})
	}
}

func refusedByQuota(t *testing.T, p *Provider, r cloud.LaunchRequest) error {
	t.Helper()
	errs := make([]error, 1)
	p.checkQuotas(t.Context(), []cloud.LaunchRequest{r}, errs)
	return errs[0]
}

func TestCheckQuota(t *testing.T) {
	large := cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}
	spot := cloud.Offering{Type: "c6i.large", Market: cloud.Spot}
	gpu := cloud.Offering{Type: "p4d.24xlarge", Market: cloud.OnDemand}
	for _, c := range []struct {
		name    string
		request cloud.LaunchRequest
		want    []string // parts of the refusal; none: it may be launched
	}{
		{"fits", cloud.LaunchRequest{Offering: large, Count: 50, AllOrNothing: true}, nil},
		{"can never fit", cloud.LaunchRequest{Offering: large, Count: 51, AllOrNothing: true},
			[]string{"51 of c6i.large needs 102 vCPUs", `"Quota L-1216C47A" in us-east-1 is 100`, "https://us-east-1.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-1216C47A"}},
		{"fits with one thread per core", cloud.LaunchRequest{Pool: "cores", Offering: large, Count: 51, AllOrNothing: true}, nil},
		{"fits in part", cloud.LaunchRequest{Offering: large, Count: 51}, nil},
		{"not one", cloud.LaunchRequest{Offering: gpu, Count: 3}, []string{"1 of p4d.24xlarge needs 96 vCPUs", "is 0"}},
		{"another offering fits", cloud.LaunchRequest{Offering: gpu, Or: []cloud.Offering{large}, Count: 3}, nil},
		{"no offering fits", cloud.LaunchRequest{Offering: gpu, Or: []cloud.Offering{large}, Count: 60, AllOrNothing: true}, []string{"needs 5760 vCPUs", "needs 120 vCPUs"}},
		{"spot has its own", cloud.LaunchRequest{Offering: spot, Count: 51, AllOrNothing: true}, nil},
		{"no such quota", cloud.LaunchRequest{Offering: cloud.Offering{Type: "mac2.metal", Market: cloud.OnDemand}, Count: 9}, nil},
		{"not known by Service Quotas", cloud.LaunchRequest{Offering: cloud.Offering{Type: "x1.large", Market: cloud.OnDemand}, Count: 9}, nil},
		{"unknown type", cloud.LaunchRequest{Offering: cloud.Offering{Type: "c0.none", Market: cloud.OnDemand}, Count: 9000, AllOrNothing: true}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := answering(t, Config{Pools: map[string]Pool{"cores": {ThreadsPerCore: 1}}}, map[string]answer{
				"DescribeInstanceTypes": someTypes(map[string]int{"c6i.large": 2, "p4d.24xlarge": 96, "x1.large": 2}),
				"GetServiceQuota":       someQuota(map[string]float64{"L-1216C47A": 100, "L-34B43A08": 1000, "L-417A185B": 0}),
			})
			err := refusedByQuota(t, p, c.request)
			if c.want == nil {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if cloud.KindOf(err) != cloud.Quota || err == nil {
				t.Fatalf("error %v, want quota", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in %v", part, err)
				}
			}
			for _, e := range cloud.Errors(err) {
				if !e.Settled || e.Offering.Type == "" {
					t.Errorf("%v is not settled, or names no offering", e)
				}
			}
		})
	}
}

// A quota that was raised is seen by the next launch a minute later, not an hour.
func TestCheckQuotaRaised(t *testing.T) {
	p, aws := answering(t, Config{}, map[string]answer{
		"DescribeInstanceTypes": someTypes(map[string]int{"c6i.large": 2}),
		"GetServiceQuota":       someQuota(map[string]float64{"L-1216C47A": 1}),
	})
	request := cloud.LaunchRequest{Offering: cloud.Offering{Type: "c6i.large", Market: cloud.OnDemand}, Count: 1}
	for range 3 {
		if err := refusedByQuota(t, p, request); cloud.KindOf(err) != cloud.Quota {
			t.Fatalf("error %v, want quota", err)
		}
	}
	if n := aws.count("GetServiceQuota"); n != 1 {
		t.Errorf("%d questions within a minute, want 1", n)
	}
	aws.set("GetServiceQuota", someQuota(map[string]float64{"L-1216C47A": 100}))
	old, known := p.know.quotas.Get("L-1216C47A", quotaAge)
	if !known {
		t.Fatal("the quota is not kept")
	}
	p.know.quotas.PutAt("L-1216C47A", old, time.Now().Add(-2*refusalAge))
	if err := refusedByQuota(t, p, request); err != nil {
		t.Errorf("still refused: %v", err)
	}
}

func TestCheckQuotaUnreadable(t *testing.T) {
	for _, c := range []struct {
		name  string
		given map[string]answer
	}{
		{"not allowed", map[string]answer{
			"DescribeInstanceTypes": someTypes(map[string]int{"c6i.large": 2}),
			"GetServiceQuota":       refusal(400, "AccessDeniedException", "not authorized"),
		}},
		{"throttled", map[string]answer{
			"DescribeInstanceTypes": someTypes(map[string]int{"c6i.large": 2}),
			"GetServiceQuota":       refusal(400, "TooManyRequestsException", "slowly"),
		}},
		{"types not allowed", map[string]answer{"DescribeInstanceTypes": refusal(403, "UnauthorizedOperation", "no")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, aws := answering(t, Config{}, c.given)
			for range 3 {
				err := refusedByQuota(t, p, cloud.LaunchRequest{Offering: cloud.Offering{Type: "c6i.large", Market: cloud.OnDemand}, Count: 9, AllOrNothing: true})
				if err != nil {
					t.Errorf("the launch is hindered: %v", err)
				}
			}
			if n := strings.Count(aws.log.String(), "quotas cannot be read"); n != 1 {
				t.Errorf("logged %d times, want once:\n%s", n, aws.log.String())
			}
		})
	}
}

// Prepare and Warm refuse what can never be met, and nothing else of the round.
func TestPrepareRefusesByQuota(t *testing.T) {
	small := cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}
	gpu := cloud.Offering{Type: "p4d.24xlarge", Zone: "us-east-1a", Market: cloud.OnDemand}
	for name, prepare := range map[string]func(*Provider) func(context.Context, []cloud.LaunchRequest) []error{
		"Prepare": func(p *Provider) func(context.Context, []cloud.LaunchRequest) []error { return p.Prepare },
		"Warm":    func(p *Provider) func(context.Context, []cloud.LaunchRequest) []error { return p.Warm },
	} {
		t.Run(name, func(t *testing.T) {
			given := account()
			given["DescribeInstanceTypes"] = someTypes(map[string]int{"c6i.large": 2, "p4d.24xlarge": 96})
			given["GetServiceQuota"] = someQuota(map[string]float64{"L-1216C47A": 100, "L-417A185B": 0})
			p, a := answering(t, Config{Pools: accountPools()}, given)
			round := []cloud.LaunchRequest{request("a", "p", 2, small), request("b", "fleets", 1, gpu), request("c", "p", 1, gpu, small)}
			for range 3 {
				errs := prepare(p)(t.Context(), slices.Clone(round))
				if errs[0] != nil || errs[2] != nil || cloud.KindOf(errs[1]) != cloud.Quota || errs[1] == nil {
					t.Fatalf("errors %v, want a Quota error for the second alone", errs)
				}
			}
			if types, quotas := a.count("DescribeInstanceTypes"), a.count("GetServiceQuota"); types != 1 || quotas != 2 {
				t.Errorf("asked %d times for types and %d times for quotas, want 1 and 2", types, quotas)
			}
			if name == "Prepare" && a.count("CreateLaunchTemplate") != 1 {
				t.Errorf("%d templates made, want that of the launch with a choice alone", a.count("CreateLaunchTemplate"))
			}
		})
	}
}

// A round waits for quotas once, however many its launches, and the next not at all.
func TestQuotasThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	given := account()
	given["DescribeInstanceTypes"] = someTypes(map[string]int{"c5.2xlarge": 8, "c6i.2xlarge": 8})
	done := make(chan struct{})
	given["GetServiceQuota"] = func(url.Values, string) (int, string) { <-done; return 500, "" }
	p, a := answering(t, Config{Pools: accountPools()}, given)
	defer close(done)
	for i, most := range []time.Duration{quotaTimeout + time.Second, time.Second} {
		start := time.Now()
		for _, err := range p.Prepare(t.Context(), slices.Repeat([]cloud.LaunchRequest{request("a", "p", 1)}, 20)) {
			if err != nil {
				t.Errorf("hindered: %v", err)
			}
		}
		if took := time.Since(start); took > most {
			t.Errorf("round %d took %s", i, took)
		}
	}
	if n := strings.Count(a.log.String(), "quotas cannot be read"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, a.log.String())
	}
}

func TestQuotaPage(t *testing.T) {
	for region, want := range map[string]string{
		"eu-west-1":     "https://eu-west-1.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-1",
		"us-gov-west-1": "https://us-gov-west-1.console.amazonaws-us-gov.com/servicequotas/home/services/ec2/quotas/L-1",
		"cn-north-1":    "https://cn-north-1.console.amazonaws.cn/servicequotas/home/services/ec2/quotas/L-1",
	} {
		if got := quotaPage(region, "L-1"); got != want {
			t.Errorf("%s: %s, want %s", region, got, want)
		}
	}
}
