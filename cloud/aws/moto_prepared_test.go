package aws_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/mototest"
)

// TestMotoTakesPreparedLaunches: after Warm, Prepare calls nothing; and what it
// wrote is enough for a provider that knows no pool, as after a change of the
// configuration and a restart.
func TestMotoTakesPreparedLaunches(t *testing.T) {
	m := startMoto(t)
	b := newBetween(t, m, 0)
	p := over(t, b.url, onMoto(m, ""))
	choice := motoRequest(m, "t2")
	choice.AllOrNothing = false
	choice.Or = []cloud.Offering{
		{Type: "c5.large", Zone: m.Subnets[1].Zone, Market: cloud.OnDemand},
		{Type: "c5.large", Zone: m.Subnets[0].Zone, Market: cloud.OnDemand},
	}
	round := []cloud.LaunchRequest{motoRequest(m, "t1"), choice}
	if err := errors.Join(p.Warm(t.Context(), slices.Clone(round))...); err != nil {
		t.Fatal(err)
	}
	b.all()
	if err := errors.Join(p.Prepare(t.Context(), round)...); err != nil {
		t.Fatal(err)
	}
	if calls := b.all(); len(calls) > 0 {
		t.Errorf("preparing after warming made calls %v", calls)
	}

	bare, err := aws.New(t.Context(), aws.Config{Name: "test", Region: mototest.Region, Endpoint: b.url})
	if err != nil {
		t.Fatal(err)
	}
	launchOn(t, bare, round[0])
	if calls := b.all(); !maps.Equal(calls, map[string]int{"RunInstances": 1}) {
		t.Errorf("a launch without choice made calls %v", calls)
	}
	for _, i := range launchOn(t, bare, round[1]) {
		if !slices.Contains(choice.Offerings(), i.Offering) || i.Addr == "" {
			t.Errorf("instance %+v is of none of %v, or has no address", i, choice.Offerings())
		}
	}
	if calls := b.all(); !maps.Equal(calls, map[string]int{"CreateFleet": 1, "DescribeInstances": 1}) {
		t.Errorf("a launch with a choice made calls %v", calls)
	}
}

func TestMotoShowsTheConsole(t *testing.T) {
	m := startMoto(t)
	p := over(t, m.Endpoint, onMoto(m, ""))
	got := launchOn(t, p, motoRequest(m, "t1"))
	text, err := p.Console(t.Context(), got[0].ID)
	if err != nil || text == "" {
		t.Errorf("console is %q, %v", text, err)
	}
	if _, err := p.Console(t.Context(), "i-0123456789abcdef0"); err == nil {
		t.Error("an unknown instance has a console")
	}
}
