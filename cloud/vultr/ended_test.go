package vultr_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// shown is how List shows an instance; the zero Instance: not at all.
func shown(t *testing.T, p *vultr.Provider, id string) cloud.Instance {
	t.Helper()
	all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1", IDs: []string{id}})
	if err != nil || len(all) > 1 {
		t.Fatalf("List: %v, %v", all, err)
	}
	if len(all) == 0 {
		return cloud.Instance{}
	}
	return all[0]
}

// Vultr forgets an instance as soon as it is destroyed. Whoever has asked for it, and was
// answered that it is so, learns of its end all the same: by a provider of his that has
// seen it in a list alone, too, and not before a Lag has passed in which no list shows it.
func TestDestroyedIsTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		plan   string
		linger time.Duration
		reopen bool
	}{
		"cloud compute":                 {plan: vultrtest.Plan},
		"bare metal":                    {plan: vultrtest.Metal},
		"another process":               {plan: vultrtest.Plan, reopen: true},
		"lists show it for a while":     {plan: vultrtest.Plan, linger: 3 * lag},
		"metal, another process, lists": {plan: vultrtest.Metal, reopen: true, linger: 2 * lag},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{Linger: tt.linger})
			dir := t.TempDir()
			open := func() *vultr.Provider { return over(t, c, func(v *vultr.Config) { v.Dir = dir }) }
			p := open()
			r := ask("t-1", 1)
			r.Offering.Type = tt.plan
			made, err := p.Launch(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if tt.reopen {
				p = open()
			}
			id, before := made[0].ID, time.Now()
			for range 2 { // the second is answered that there is none
				if err := p.Terminate(t.Context(), []string{id}); err != nil {
					t.Fatal(err)
				}
			}
			for {
				i := shown(t, p, id)
				age := time.Since(before)
				if i.ID != id || i.Token != "t-1" || i.Pool != "pool" || i.Addr == "" {
					t.Fatalf("after %s it is shown as %+v", age, i)
				}
				if i.State == cloud.Terminated {
					if age < max(lag, tt.linger) {
						t.Errorf("it is taken to be gone after %s, of which lists showed it for %s", age, tt.linger)
					}
					if i.Ended.Before(before) || i.Ended.After(time.Now().Add(-lag)) {
						t.Errorf("it ended %s after it was asked to", i.Ended.Sub(before))
					}
					break
				}
				if age > time.Minute {
					t.Fatalf("it is still %s", i.State)
				}
			}
			if i := shown(t, p, id); i.State != cloud.Terminated {
				t.Errorf("after its end it is %s", i.State)
			}
			if again, err := p.Launch(t.Context(), r); len(again) > 0 || err == nil {
				t.Errorf("the launch it was of brings %v, %v", again, err)
			}
		})
	}
}

// Where this host's clock is behind Vultr's, an instance that lived for less has still
// lived: of its begun hour the ledger would have nothing.
func TestEndedByAClockBehind(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{Age: -10 * time.Second})
	p := over(t, c)
	made, err := p.Launch(t.Context(), ask("t-1", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context(), ids(made)); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; {
		i := shown(t, p, made[0].ID)
		if i.State == cloud.Terminated {
			if d := i.Ended.Sub(i.Launched); d != time.Second || price.PerHour.Billed(d) != time.Hour {
				t.Errorf("it has lived for %s", d)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatalf("it is still %s", i.State)
		}
	}
}

// What nobody has answered is no end: an instance that is in no list, and of which
// Vultr says that it knows none, may be another account's.
func TestAbsentIsNotTold(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]vultrtest.Fault{
		"not found": {Status: http.StatusNotFound, Message: "Instance not found"},
		"in words":  {Status: http.StatusBadRequest, Message: "invalid instance ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{})
			p := over(t, c)
			made, err := p.Launch(t.Context(), ask("t-1", 1))
			if err != nil {
				t.Fatal(err)
			}
			id := made[0].ID
			c.Fail("DELETE instances", fault)
			if err := p.Terminate(t.Context(), []string{id}); err != nil {
				t.Fatal(err)
			}
			// As of an account that has no such thing.
			c.Fail("GET instances", vultrtest.Fault{Body: `{"instances":[],"meta":{"total":0,"links":{"next":"","prev":""}}}`, Times: 1e6})
			for until := time.Now().Add(3 * lag); time.Now().Before(until); {
				if i := shown(t, p, id); i.ID != "" {
					t.Fatalf("it is shown as %+v", i)
				}
			}
		})
	}
}
