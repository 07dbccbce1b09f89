package vultr_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
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
	for name, age := range map[string]time.Duration{"clocks agree": 0, "this one is behind Vultr's": -10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takenBackIsTold(t, left, age)
		})
	}
}

func takenBackIsTold(t *testing.T, left int, age time.Duration) {
	c := fakeCloud(t, vultrtest.Options{Age: age})
	c.SetCapacity(vultrtest.Plan, left)
	dir := t.TempDir()
	open := func() *vultr.Provider { return over(t, c, func(v *vultr.Config) { v.Dir = dir }) }
	p, r := open(), ask("t-1", 9)
	r.AllOrNothing = true
	// The fake has times of whole seconds, as Vultr has.
	began := time.Now().Add(-age).Truncate(time.Second)
	told := func(what string, all []cloud.Instance, state cloud.State) []string {
		t.Helper()
		if len(all) != left {
			t.Fatalf("%s tells of %v, want %d", what, all, left)
		}
		for _, i := range all {
			late := time.Now()
			if age < 0 {
				late = late.Add(-age + time.Second)
			}
			if i.State != state || i.Token != "t-1" || i.Pool != "pool" || i.Offering != r.Offering || i.Launched.Before(began) || i.Launched.After(late) {
				t.Errorf("%s tells of %+v", what, i)
			}
			if state == cloud.Terminated && (i.Ended.Before(began) || i.Ended.After(late) || !i.Ended.After(i.Launched)) {
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

// The process is killed (kill -9) at random moments while it makes what it then has to take back: in the
// end nothing is there, and all that was ever made is told.
func TestTakenBackByKilled(t *testing.T) {
	t.Parallel()
	const left, lag = 7, 100 * time.Millisecond
	c := fakeCloud(t, vultrtest.Options{Latency: 20 * time.Millisecond, Lag: 50 * time.Millisecond})
	c.SetCapacity(vultrtest.Plan, left)
	v := victim{Config: vultr.Config{Name: "lon", Region: vultrtest.Region, KeyFile: keyFile(t), Dir: t.TempDir(), Endpoint: c.URL(), Lag: lag, Pools: map[string]vultr.Pool{"pool": {}}}}
	prepared := []cloud.LaunchRequest{ask("t-1", 20)}
	prepared[0].AllOrNothing = true
	if err := over(t, c).Prepare(t.Context(), prepared)[0]; err != nil {
		t.Fatal(err)
	}
	v.Request = prepared[0]
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		ctx, cancel := context.WithTimeout(t.Context(), lag+time.Duration(rand.Int64N(int64(3*lag)))) // CommandContext kills with -9
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), victimVar+"="+string(text))
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("a process has launched all: %q", out)
		}
		cancel()
	}
	got, err := over(t, c, func(o *vultr.Config) { o.Dir, o.Lag = v.Config.Dir, lag }).Launch(t.Context(), v.Request)
	back := ids(cloud.TakenBack(err))
	slices.Sort(back)
	if len(got) != 0 || cloud.KindOf(err) != cloud.Capacity || len(back) != left || len(slices.Compact(back)) != left || len(c.Machines()) != 0 {
		t.Errorf("got %v, %v, told are %v and %d are there; want %d told and none there", ids(got), err, back, len(c.Machines()), left)
	}
}
