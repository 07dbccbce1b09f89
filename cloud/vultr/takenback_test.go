package vultr_test

import (
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// What came of a launch of all or nothing that could not be filled has cost a begun hour
// each: it is told by the launch, by a repeat after a crash, and by the list of its token.
func TestTakenBackIsTold(t *testing.T) {
	t.Parallel()
	const left = 3
	c := fakeCloud(t, vultrtest.Options{})
	c.SetCapacity(vultrtest.Plan, left)
	dir := t.TempDir()
	open := func() *vultr.Provider { return over(t, c, func(v *vultr.Config) { v.Dir = dir }) }
	p, r := open(), ask("t-1", 9)
	r.AllOrNothing = true
	// The fake has times of whole seconds, as Vultr has.
	began := time.Now().Truncate(time.Second)
	told := func(what string, all []cloud.Instance, state cloud.State) []string {
		t.Helper()
		if len(all) != left {
			t.Fatalf("%s tells of %v, want %d", what, all, left)
		}
		for _, i := range all {
			late := time.Now()
			if i.State != state || i.Token != "t-1" || i.Pool != "pool" || i.Offering != r.Offering || i.Launched.Before(began) || i.Launched.After(late) {
				t.Errorf("%s tells of %+v", what, i)
			}
			if state == cloud.Terminated && (i.Ended.Before(began) || i.Ended.After(late)) {
				t.Errorf("%s: it ended at %s, of a test from %s to %s", what, i.Ended, began, late)
			}
		}
		found := ids(all)
		slices.Sort(found)
		return found
	}
	got, err := p.Launch(t.Context(), r)
	if len(got) != 0 || cloud.KindOf(err) != cloud.Capacity || len(c.Machines()) != 0 {
		t.Fatalf("got %v, %v, and %d are there, want none for lack of capacity", ids(got), err, len(c.Machines()))
	}
	first := told("the launch", cloud.TakenBack(err), cloud.Terminating)
	list := func(f cloud.Filter) (all []cloud.Instance, err error) {
		f.Cluster = "c-1"
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(lag / 4) {
			all, err = p.List(t.Context(), f)
			if !slices.ContainsFunc(all, func(i cloud.Instance) bool { return i.State.Live() }) {
				break
			}
		}
		return all, err
	}
	listed, err := list(cloud.Filter{})
	if err != nil || !slices.Equal(told("a list", listed, cloud.Terminated), first) {
		t.Errorf("listed are %v, %v, want %v", listed, err, first)
	}
	_, err = p.Launch(t.Context(), r)
	if again := told("a repeat", cloud.TakenBack(err), cloud.Terminating); !slices.Equal(again, first) {
		t.Errorf("a repeat tells of %v, the launch of %v", again, first)
	}
	p = open() // as after a crash before the answer was written down
	_, err = p.Launch(t.Context(), r)
	if again := told("a repeat by another process", cloud.TakenBack(err), cloud.Terminated); !slices.Equal(again, first) {
		t.Errorf("a repeat by another process tells of %v, the launch of %v", again, first)
	}
	listed, err = list(cloud.Filter{Tokens: []string{"t-1"}})
	if err != nil || !slices.Equal(told("another process's list", listed, cloud.Terminated), first) {
		t.Errorf("listed by another process are %v, %v, want %v", listed, err, first)
	}
	if len(c.Machines()) != 0 || c.Count(posts) > left+4 {
		t.Errorf("%d machines are there, after %d requests for one", len(c.Machines()), c.Count(posts))
	}
}
