package aws

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// machines are instances as RunInstances and DescribeInstances answer them.
func machines(state string, ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, `<item><instanceId>%s</instanceId><instanceState><name>%s</name></instanceState><instanceType>c6i.2xlarge</instanceType>
<privateIpAddress>10.0.0.1</privateIpAddress><placement><availabilityZone>us-east-1a</availabilityZone></placement>
<stateReason><code>Server.InternalError</code><message>it broke</message></stateReason>
<tagSet><item><key>burst:cluster</key><value>c</value></item><item><key>burst:token</key><value>a</value></item></tagSet></item>`, id, state)
	}
	return b.String()
}

func started(items ...string) answer {
	return fixed("<instancesSet>" + strings.Join(items, "") + "</instancesSet>")
}

func described(items ...string) answer {
	return fixed("<reservationSet><item><instancesSet>" + strings.Join(items, "") + "</instancesSet></item></reservationSet>")
}

// outcome is what a launch's answer must be.
type outcome struct {
	ids    []string
	kinds  []cloud.Kind // of the errors, in order
	about  []cloud.Offering
	open   bool // not Settled
	forget bool // the template must be made anew
}

func check(t *testing.T, got []cloud.Instance, err error, want outcome) {
	t.Helper()
	if found := ids(got); !slices.Equal(found, want.ids) && len(found)+len(want.ids) > 0 {
		t.Errorf("instances %v, want %v", found, want.ids)
	}
	var kinds []cloud.Kind
	for i, e := range cloud.Errors(err) {
		kinds = append(kinds, e.Kind)
		if e.Settled == want.open {
			t.Errorf("settled %v: %v", e.Settled, e)
		}
		if i < len(want.about) && e.Offering != want.about[i] {
			t.Errorf("about %v, want %v: %v", e.Offering, want.about[i], e)
		}
	}
	if !slices.Equal(kinds, want.kinds) || (err == nil) != (len(want.kinds) == 0) {
		t.Errorf("error %v, want %v", err, want.kinds)
	}
}

func TestRunInstances(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer answer
		list   answer // of DescribeInstances; nil: none
		whole  bool
		want   outcome
	}{
		{"all", started(machines("pending", "i-1", "i-2")), nil, false, outcome{ids: []string{"i-1", "i-2"}}},
		{"some", started(machines("pending", "i-1")), nil, false, outcome{ids: []string{"i-1"}, kinds: []cloud.Kind{cloud.Capacity}, about: []cloud.Offering{onDemandA}}},
		{"one dead at birth", started(machines("pending", "i-1"), machines("terminated", "i-2")), nil, false, outcome{ids: []string{"i-1"}, kinds: []cloud.Kind{cloud.Capacity}}},
		{"some of all or nothing", started(machines("pending", "i-1")), nil, true, outcome{kinds: []cloud.Kind{cloud.Capacity}}},
		{"no capacity", refusal(500, "InsufficientInstanceCapacity", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Capacity}, about: []cloud.Offering{onDemandA}}},
		{"quota", refusal(400, "VcpuLimitExceeded", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Quota}}},
		{"throttled: the same again", refusal(503, "RequestLimitExceeded", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Throttled}, open: true}},
		{"policy: the same again", refusal(403, "UnauthorizedOperation", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Auth}, open: true}},
		{"outcome unknown", refusal(500, "InternalError", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Transient}, open: true}},
		{"token of another request", refusal(400, "IdempotentParameterMismatch", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Invalid}}},
		{"group removed: soon again, under a new token", refusal(400, "InvalidPlacementGroup.Unknown", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Throttled}}},
		{"repeat, one has ended", refusal(400, "IdempotentInstanceTerminated", ""), described(machines("running", "i-1"), machines("terminated", "i-2")), false,
			outcome{ids: []string{"i-1"}, kinds: []cloud.Kind{cloud.Capacity}}},
		{"repeat, and the list fails", refusal(400, "IdempotentInstanceTerminated", ""), refusal(500, "InternalError", ""), false, outcome{kinds: []cloud.Kind{cloud.Transient}, open: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, a := answering(t, Config{Pools: accountPools()}, account())
			a.set("RunInstances", tt.answer)
			a.set("TerminateInstances", fixed("<instancesSet/>"))
			if tt.list != nil {
				a.set("DescribeInstances", tt.list)
			}
			r := request("a", "p", 2)
			r.AllOrNothing = tt.whole
			got, err := p.Launch(t.Context(), r)
			check(t, got, err, tt.want)
			if n := a.count("TerminateInstances"); (n == 1) != tt.whole {
				t.Errorf("%d terminations", n)
			}
			for _, i := range got {
				if i.Addr != "10.0.0.1" || i.Token != "a" || i.Cluster != "c" || i.Pool != "p" && tt.list == nil || i.Offering != onDemandA {
					t.Errorf("%+v", i)
				}
			}
			if n := a.count("RunInstances"); n != 1 {
				t.Errorf("RunInstances is called %d times", n)
			}
		})
	}
}

// fleetAnswer is CreateFleet's answer: instances of type c6i.2xlarge, and errors.
func fleetAnswer(ids []string, errs ...string) answer {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, `<item><instanceIds><item>%s</item></instanceIds><instanceType>c6i.2xlarge</instanceType>
<launchTemplateAndOverrides><overrides><instanceType>c6i.2xlarge</instanceType><subnetId>subnet-a</subnetId></overrides></launchTemplateAndOverrides></item>`, id)
	}
	return fixed("<fleetId>fleet-1</fleetId><fleetInstanceSet>" + b.String() + "</fleetInstanceSet><errorSet>" + strings.Join(errs, "") + "</errorSet>")
}

func fleetError(code, kind, subnet string) string {
	return fmt.Sprintf(`<item><errorCode>%s</errorCode><errorMessage>m</errorMessage><launchTemplateAndOverrides><overrides>
<instanceType>%s</instanceType><subnetId>%s</subnetId></overrides></launchTemplateAndOverrides></item>`, code, kind, subnet)
}

func TestCreateFleet(t *testing.T) {
	noneA := fleetError("InsufficientInstanceCapacity", "c6i.2xlarge", "subnet-a")
	for _, tt := range []struct {
		name   string
		answer answer
		list   answer // nil: nothing is shown yet
		whole  bool
		want   outcome
	}{
		{"all", fleetAnswer([]string{"i-1", "i-2"}), nil, false, outcome{ids: []string{"i-1", "i-2"}}},
		{"all, after some offering had none", fleetAnswer([]string{"i-1", "i-2"}, noneA), nil, false, outcome{ids: []string{"i-1", "i-2"}}},
		{"all, and the list fails", fleetAnswer([]string{"i-1", "i-2"}), refusal(500, "InternalError", ""), false, outcome{ids: []string{"i-1", "i-2"}}},
		{"capacity and throttling in one answer",
			fleetAnswer([]string{"i-1"}, noneA, noneA, fleetError("RequestLimitExceeded", "c5.2xlarge", "subnet-b")), nil, false,
			outcome{ids: []string{"i-1"}, kinds: []cloud.Kind{cloud.Capacity, cloud.Throttled}, about: []cloud.Offering{onDemandA, onDemandB}}},
		{"quota of all", fleetAnswer(nil, "<item><errorCode>VcpuLimitExceeded</errorCode></item>"), nil, false, outcome{kinds: []cloud.Kind{cloud.Quota}, about: []cloud.Offering{{}}}},
		{"a code we do not know", fleetAnswer(nil, fleetError("InternalError", "c5.2xlarge", "subnet-b")), nil, false, outcome{kinds: []cloud.Kind{cloud.Capacity}, about: []cloud.Offering{onDemandB}}},
		{"fewer, without a word", fleetAnswer([]string{"i-1"}), nil, false, outcome{ids: []string{"i-1"}, kinds: []cloud.Kind{cloud.Capacity}, about: []cloud.Offering{{}}}},
		{"some of all or nothing", fleetAnswer([]string{"i-1"}, noneA), nil, true, outcome{kinds: []cloud.Kind{cloud.Capacity}}},
		{"refused", refusal(503, "RequestLimitExceeded", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Throttled}, open: true}},
		{"template removed", refusal(400, "InvalidLaunchTemplateId.NotFound", ""), nil, false, outcome{kinds: []cloud.Kind{cloud.Throttled}, forget: true}},
		{"template removed, in the answer", fleetAnswer(nil, fleetError("InvalidLaunchTemplateId.NotFound", "c6i.2xlarge", "subnet-a")), nil, false, outcome{kinds: []cloud.Kind{cloud.Throttled}, forget: true}},
		{"repeat, one has ended", fleetAnswer([]string{"i-1", "i-2"}), described(machines("running", "i-1"), machines("terminated", "i-2")), false,
			outcome{ids: []string{"i-1"}, kinds: []cloud.Kind{cloud.Capacity}}},
		{"repeat whose answer names none", fleetAnswer(nil), described(machines("running", "i-1", "i-2")), false, outcome{ids: []string{"i-1", "i-2"}}},
		{"repeat whose answer names none, and the list fails", fleetAnswer(nil), refusal(500, "InternalError", ""), false, outcome{kinds: []cloud.Kind{cloud.Transient}, open: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, a := answering(t, Config{Pools: accountPools()}, account())
			a.set("CreateFleet", tt.answer)
			a.set("TerminateInstances", fixed("<instancesSet/>"))
			if tt.list != nil {
				a.set("DescribeInstances", tt.list)
			}
			r := request("a", "p", 2, onDemandA, onDemandB)
			r.AllOrNothing = tt.whole
			got, err := p.Launch(t.Context(), r)
			check(t, got, err, tt.want)
			for _, i := range got {
				if i.Offering != onDemandA || !i.State.Live() {
					t.Errorf("%+v", i)
				}
			}
			if gone := p.templates.of("burst-c-p").id == ""; gone != tt.want.forget {
				t.Errorf("template forgotten: %v, want %v", gone, tt.want.forget)
			}
		})
	}
}

// EC2 may not know an instance yet that it has just launched: what undo could
// not end is returned, for the engine to watch and to end.
func TestUndoOfInstancesNotYetKnown(t *testing.T) {
	for code, want := range map[string]int{"InvalidInstanceID.NotFound": 1, "InternalError": 1, "": 0} {
		t.Run(code, func(t *testing.T) {
			p, a := answering(t, Config{Pools: accountPools()}, account())
			a.set("RunInstances", started(machines("pending", "i-1")))
			a.set("TerminateInstances", refusal(400, code, "The instance ID 'i-1' does not exist"))
			if code == "" {
				a.set("TerminateInstances", fixed("<instancesSet/>"))
			}
			r := request("a", "p", 2)
			r.AllOrNothing = true
			got, err := p.Launch(t.Context(), r)
			if len(got) != want || cloud.KindOf(err) != cloud.Capacity {
				t.Errorf("%d instances, %v; want %d", len(got), err, want)
			}
			if back := cloud.TakenBack(err); len(back) != 1-want || want == 0 && (back[0].ID != "i-1" || back[0].State != cloud.Terminating) {
				t.Errorf("taken back are %+v", back)
			}
		})
	}
}

func TestLaunchUsesItsSpecAlone(t *testing.T) {
	p, a := answering(t, Config{Pools: accountPools()}, account())
	round := []cloud.LaunchRequest{request("a", "p", 1)}
	if err := p.Prepare(t.Context(), round)[0]; err != nil {
		t.Fatal(err)
	}
	var forms []url.Values
	a.set("RunInstances", func(form url.Values, body string) (int, string) {
		forms = append(forms, form)
		return started(machines("pending", "i-1"))(form, body)
	})
	later := &Provider{c: Config{Name: "east"}, aws: p.aws, clients: p.clients, limits: p.limits, log: p.log}
	for _, one := range []*Provider{p, later} {
		if _, err := one.Launch(t.Context(), round[0]); err != nil {
			t.Fatal(err)
		}
	}
	if forms[0].Encode() != forms[1].Encode() {
		t.Errorf("a repeat after another configuration differs:\n%v\n%v", forms[0], forms[1])
	}
	if _, err := p.Launch(t.Context(), cloud.LaunchRequest{Token: "a", Spec: []byte(`{"api":"Other","targets":[{}]}`)}); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("a call we do not know: %v", err)
	}
}

func TestList(t *testing.T) {
	p, a := answering(t, Config{}, nil)
	pages := 0
	a.set("DescribeInstances", func(form url.Values, body string) (int, string) {
		pages++
		if form.Get("NextToken") == "" {
			return fixed(`<reservationSet><item><instancesSet>`+machines("running", "i-1")+`</instancesSet></item></reservationSet><nextToken>2</nextToken>`)(form, body)
		}
		return described(machines("stopped", "i-2"))(form, body)
	})
	got, err := p.List(t.Context(), cloud.Filter{Cluster: "c"})
	if err != nil || pages != 2 || !slices.Equal(ids(got), []string{"i-1", "i-2"}) || got[1].State != cloud.Terminating {
		t.Errorf("%d pages: %+v, %v", pages, got, err)
	}
	if got, err = p.List(t.Context(), cloud.Filter{Cluster: "d"}); err != nil || len(got) != 0 {
		t.Errorf("another cluster's: %v, %v", got, err)
	}
	if _, err = p.List(t.Context(), cloud.Filter{}); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("without a cluster: %v", err)
	}
	a.set("DescribeInstances", refusal(500, "InternalError", ""))
	if got, err = p.List(t.Context(), cloud.Filter{Cluster: "c"}); err == nil || len(got) > 0 {
		t.Errorf("no answer: %v, %v", got, err)
	}
}

func TestQueries(t *testing.T) {
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("i-%d", i))
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		f       cloud.Filter
		queries int
		by      string
	}{
		{"cluster", cloud.Filter{}, 1, ""},
		{"tokens", cloud.Filter{Tokens: []string{"a", "b"}}, 1, "tag:burst:token"},
		{"ids", cloud.Filter{IDs: many(201)}, 2, "instance-id"},
		{"ids and tokens", cloud.Filter{IDs: many(3), Tokens: []string{"a"}}, 1, "instance-id"},
		{"too many ids", cloud.Filter{IDs: many(1001)}, 1, ""},
	} {
		tt.f.Cluster = "c"
		got := queries(tt.f)
		by := ""
		if len(got[0]) > 1 {
			by = *got[0][1].Name
		}
		if len(got) != tt.queries || by != tt.by {
			t.Errorf("%s: %d queries by %q, want %d by %q", tt.name, len(got), by, tt.queries, tt.by)
		}
	}
	if got := literal(`a*b?c\d`); got != `a\*b\?c\\d` {
		t.Errorf("wildcards: %s", got)
	}
}

func TestTransition(t *testing.T) {
	at := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	for reason, want := range map[string]time.Time{
		"User initiated (2026-11-21 05:00:00 GMT)": at,
		"User initiated (2026-11-21 05:00:00 UTC)": at,
		"Server.SpotInstanceTermination":           {},
		"User initiated (2026-99-21 05:00:00 GMT)": {},
		"": {},
	} {
		if got := transition(reason); !got.Equal(want) {
			t.Errorf("%q: %s, want %s", reason, got, want)
		}
	}
}

func TestTerminate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		ids       int
		bad       []string
		code      string
		named     bool // the message names the bad ids
		calls     int
		remaining int // errors
	}{
		{name: "none"},
		{name: "all at once", ids: 1000, calls: 1},
		{name: "more than a call takes", ids: 1500, calls: 2},
		{name: "unknown ids that are named", ids: 1000, bad: []string{"i-7", "i-8"}, code: "InvalidInstanceID.NotFound", named: true, calls: 2},
		{name: "an unknown id that is not named", ids: 4, bad: []string{"i-2"}, code: "InvalidInstanceID.NotFound", calls: 5},
		{name: "only an unknown id", ids: 1, bad: []string{"i-0"}, code: "InvalidInstanceID.Malformed", calls: 1},
		{name: "one is protected", ids: 4, bad: []string{"i-2"}, code: "OperationNotPermitted", calls: 5, remaining: 1},
		{name: "not allowed", ids: 100, bad: []string{"i-2"}, code: "UnauthorizedOperation", calls: 1, remaining: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, a := answering(t, Config{}, nil)
			ended := map[string]bool{}
			a.set("TerminateInstances", func(form url.Values, body string) (int, string) {
				asked := values(form, "InstanceId")
				for _, bad := range tt.bad {
					if slices.Contains(asked, bad) {
						message := "no"
						if tt.named {
							message = fmt.Sprintf("The instance IDs '%s' do not exist", strings.Join(tt.bad, ", "))
						}
						return refusal(400, tt.code, message)(form, body)
					}
				}
				for _, id := range asked {
					ended[id] = true
				}
				return fixed("<instancesSet/>")(form, body)
			})
			var ids []string
			for i := range tt.ids {
				ids = append(ids, fmt.Sprintf("i-%d", i))
			}
			// Room for all, if a refused call gives its tokens back.
			p.limits.resources["TerminateInstances"] = &bucket{rate: rate{1500, 0.1}, level: 1500}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := p.Terminate(ctx, ids)
			if n := len(cloud.Errors(err)); n != tt.remaining || a.count("TerminateInstances") != tt.calls {
				t.Errorf("%d calls, want %d: %v", a.count("TerminateInstances"), tt.calls, err)
			}
			if tt.code != "UnauthorizedOperation" && len(ended) != tt.ids-len(tt.bad) {
				t.Errorf("%d of %d ended", len(ended), tt.ids)
			}
		})
	}
}
