package stopall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

func launch(t *testing.T, p cloud.Provider, cluster, pool string, count int) {
	t.Helper()
	o := cloud.Offering{Type: "m", Market: cloud.Spot}
	r := cloud.LaunchRequest{Token: fmt.Sprint(cluster, pool, time.Now().UnixNano()), Cluster: cluster, Pool: pool, Offering: o, Count: count}
	if _, err := p.Launch(t.Context(), r); err != nil {
		t.Error(err)
	}
}

// alive counts a fake's live instances of a cluster, "" for all.
func alive(f *cloudtest.Fake, cluster string) int {
	n := 0
	for _, i := range f.Instances() {
		if i.State.Live() && (cluster == "" || i.Cluster == cluster) {
			n++
		}
	}
	return n
}

// protects is a cloud that refuses each call that names an id, and that shows
// instances of other clusters, whatever it is asked.
type protects struct {
	*cloudtest.Fake
	id    string
	kind  cloud.Kind
	shows bool
}

func (p *protects) Terminate(ctx context.Context, ids []string) error {
	if slices.Contains(ids, p.id) {
		return &cloud.Error{Kind: p.kind, Op: "terminate", Err: errors.New("is protected")}
	}
	return p.Fake.Terminate(ctx, ids)
}

func (p *protects) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	if p.shows {
		return p.Instances(), nil
	}
	return p.Fake.List(ctx, f)
}

func TestRun(t *testing.T) {
	auth := &cloud.Error{Kind: cloud.Auth, Op: "list", Err: errors.New("expired token")}
	throttled := &cloud.Error{Kind: cloud.Throttled, Op: "terminate", Err: errors.New("too often")}
	lost := &cloud.Error{Kind: cloud.Transient, Op: "terminate", Err: errors.New("no route")}
	for _, tt := range []struct {
		name    string
		options cloudtest.Options
		o       Options
		wrap    func(f *cloudtest.Fake) cloud.Provider
		do      func(t *testing.T, f *cloudtest.Fake) // before, or beside, the run
		launch  int
		ended   int
		left    int
		err     string // part of it; empty: none
		most    time.Duration
	}{
		{name: "none", most: 5 * time.Second},
		{name: "one", launch: 1, ended: 1, most: 6 * time.Second},
		{name: "many, in batches", launch: 1000, ended: 1000, options: cloudtest.Options{Shutdown: 40 * time.Second}, most: time.Minute},
		{name: "until the lag is over", launch: 2, ended: 2, options: cloudtest.Options{Lag: time.Minute}, most: 3 * time.Minute},
		{name: "of one pool", launch: 3, ended: 0, o: Options{Wanted: func(i cloud.Instance) bool { return i.Pool == "q" }}, most: 5 * time.Second},
		{name: "what appears meanwhile", launch: 2, ended: 7, options: cloudtest.Options{Lag: 20 * time.Second}, most: 2 * time.Minute, do: func(t *testing.T, f *cloudtest.Fake) {
			time.AfterFunc(500*time.Millisecond, func() { launch(t, f, "own", "p", 5) }) // is shown 20 s later
		}},
		{name: "a launch is under way for long", launch: 1, ended: 3, most: 2 * time.Minute, do: func(t *testing.T, f *cloudtest.Fake) {
			time.AfterFunc(time.Minute, func() { launch(t, f, "own", "p", 2) })
		}, o: Options{Busy: until(time.Minute)}},
		{name: "busy for ever", launch: 1, ended: 1, most: 11 * time.Minute, o: Options{Busy: until(time.Hour)}},
		{name: "throttled", launch: 250, ended: 250, most: time.Minute, do: func(_ *testing.T, f *cloudtest.Fake) {
			f.Inject(cloudtest.Terminate, cloudtest.Fault{Err: throttled, Times: 5})
		}},
		{name: "answers are lost", launch: 250, ended: 250, most: time.Minute, do: func(_ *testing.T, f *cloudtest.Fake) {
			f.Inject(cloudtest.Terminate, cloudtest.Fault{Err: lost, Times: 5, Lost: true})
			f.Inject(cloudtest.List, cloudtest.Fault{Err: lost, Skip: 1, Times: 5})
		}},
		{name: "wrong credentials", launch: 3, left: 0, err: "expired token", most: 10 * time.Second, do: func(_ *testing.T, f *cloudtest.Fake) {
			f.Inject(cloudtest.List, cloudtest.Fault{Err: auth, Times: 1000})
		}},
		{name: "no answer", launch: 3, err: "no route", most: 4 * time.Minute, do: func(_ *testing.T, f *cloudtest.Fake) {
			f.Inject(cloudtest.List, cloudtest.Fault{Err: lost, Times: 10_000})
		}},
		{name: "one that cannot be ended", launch: 300, ended: 299, left: 1, err: "is protected", most: 2 * time.Minute,
			wrap: func(f *cloudtest.Fake) cloud.Provider {
				return &protects{Fake: f, id: f.Instances()[150].ID, kind: cloud.Auth}
			}},
		{name: "one that cannot be ended, for a reason that might pass", launch: 30, ended: 29, left: 1, err: "is protected", most: 12 * time.Minute,
			wrap: func(f *cloudtest.Fake) cloud.Provider {
				return &protects{Fake: f, id: f.Instances()[15].ID, kind: cloud.Transient}
			}},
		{name: "one that ends for ever", launch: 2, left: 2, err: "nothing has changed", options: cloudtest.Options{Shutdown: time.Hour}, most: 12 * time.Minute},
		{name: "a cloud that shows others'", launch: 3, ended: 3, most: 10 * time.Second,
			wrap: func(f *cloudtest.Fake) cloud.Provider { return &protects{Fake: f, shows: true} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, other := cloudtest.NewFake(tt.options), cloudtest.NewFake(cloudtest.Options{})
				launch(t, f, "foreign", "p", 4)
				launch(t, other, "own", "q", 1)
				if tt.launch > 0 {
					launch(t, f, "own", "p", tt.launch)
				}
				time.Sleep(2 * time.Minute)
				var p cloud.Provider = f
				if tt.wrap != nil {
					p = tt.wrap(f)
				}
				if tt.do != nil {
					tt.do(t, f)
				}
				tt.o.Cluster = "own"
				told := 0
				tt.o.Report = func(p Progress) {
					if told++; p.Gone > p.Found {
						t.Errorf("%+v", p)
					}
				}
				began := time.Now()
				all := Run(t.Context(), map[string]cloud.Provider{"a": p, "b": other}, tt.o)
				took := time.Since(began)
				if len(all) != 2 || all[0].Provider != "a" || all[1].Provider != "b" || all[1].Err != nil || alive(other, "own") != 0 {
					t.Fatalf("%+v", all)
				}
				r := all[0]
				if r.Ended != tt.ended || len(r.Left) != tt.left || (r.Err == nil) != (tt.err == "") || r.Err != nil && !strings.Contains(r.Err.Error(), tt.err) {
					t.Errorf("ended %d, left %d, %v; want %d, %d, %q", r.Ended, len(r.Left), r.Err, tt.ended, tt.left, tt.err)
				}
				if tt.err == "" && tt.o.Wanted == nil && alive(f, "own") != 0 {
					t.Errorf("%d live on", alive(f, "own"))
				}
				if alive(f, "foreign") != 4 {
					t.Error("another cluster's instance was ended")
				}
				if took > tt.most || told == 0 {
					t.Errorf("took %s, more than %s; told %d times", took, tt.most, told)
				}
				if n := f.Calls(cloudtest.Terminate); n > 60 {
					t.Errorf("%d calls", n)
				}
			})
		})
	}
}

// until is busy for a time from its first call on.
func until(d time.Duration) func(context.Context) bool {
	began := sync.OnceValue(time.Now)
	return func(context.Context) bool { return time.Since(began()) < d }
}

// TestInterrupted says what is left.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := cloudtest.NewFake(cloudtest.Options{Shutdown: time.Minute})
		launch(t, f, "own", "p", 3)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		r := Run(ctx, map[string]cloud.Provider{"a": f}, Options{Cluster: "own"})[0]
		if len(r.Left) != 3 || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%+v", r)
		}
	})
}

// TestNoCluster ends nothing.
func TestNoCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := cloudtest.NewFake(cloudtest.Options{})
		launch(t, f, "own", "p", 3)
		p := map[string]cloud.Provider{"a": &protects{Fake: f, shows: true}}
		if r := Run(t.Context(), p, Options{})[0]; r.Err == nil || alive(f, "") != 3 {
			t.Errorf("%+v, %d live", r, alive(f, ""))
		}
		if _, failed := List(t.Context(), p, Options{}); failed["a"] == nil {
			t.Error("listed without a cluster")
		}
		found, failed := List(t.Context(), p, Options{Cluster: "own"})
		if len(found["a"]) != 3 || len(failed) != 0 {
			t.Errorf("%v, %v", found, failed)
		}
	})
}
