package vultr_test

import (
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// fakeCloud starts a fake of Vultr that ends with the test.
func fakeCloud(t *testing.T, o vultrtest.Options) *vultrtest.Cloud {
	t.Helper()
	c := vultrtest.New(o)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the fake: %v", err)
		}
	})
	return c
}

// keyFile holds the fake's API key.
func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(vultrtest.Key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lag is the provider's in tests; the fake hides new machines for half of it.
const lag = 40 * time.Millisecond

// over makes a provider of the pool "pool" on the fake, with a folder of its own.
func over(t *testing.T, c *vultrtest.Cloud, change ...func(*vultr.Config)) *vultr.Provider {
	t.Helper()
	config := vultr.Config{Name: "lon", Region: vultrtest.Region, KeyFile: keyFile(t), Dir: filepath.Join(t.TempDir(), "lon"), Endpoint: c.URL(), Lag: lag,
		Pools: map[string]vultr.Pool{"pool": {}}}
	for _, do := range change {
		do(&config)
	}
	p, err := vultr.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(plan string) cloud.LaunchRequest {
	return cloud.LaunchRequest{Image: "os:2136", UserData: "#!/bin/sh\n", Tags: map[string]string{"project": "storm surge"},
		Offering: cloud.Offering{Type: plan, Market: cloud.OnDemand}}
}

// refusals are one of Vultr's for each kind.
var refusals = map[cloud.Kind]vultrtest.Fault{
	cloud.Capacity:  {Status: http.StatusBadRequest, Message: "The plan is not available in the selected location"},
	cloud.Quota:     {Status: http.StatusPreconditionFailed, Message: "You have reached the maximum number of active virtual machines for this account."},
	cloud.Throttled: {Status: http.StatusTooManyRequests, Message: "Rate limit exceeded"},
	cloud.Invalid:   {Status: http.StatusBadRequest, Message: "Invalid hostname"},
	cloud.Auth:      {Status: http.StatusUnauthorized, Message: "Unauthorized IP address: 192.0.2.1"},
	cloud.Transient: {Status: http.StatusInternalServerError, Message: "Internal error"},
}

// tries is how often the provider asks before it gives up a request that may be
// done twice.
const tries = 3

// slow is a Vultr that takes its time, and counts requests. It lets half more through than the real one, since a
// busy machine bunches what was sent evenly; TestRate is about that limit itself.
var slow = vultrtest.Options{Latency: 15 * time.Millisecond, PerSecond: 45}

// failOnce has one request of those that the provider repeats fail: which, how and
// when is by dice that are the same each time. met counts the clouds on which it was met.
func failOnce(t *testing.T, c *vultrtest.Cloud, resource string, met *atomic.Int32) {
	name := fnv.New64()
	_, _ = name.Write([]byte(t.Name())) // never fails
	dice := rand.New(rand.NewPCG(17, name.Sum64()))
	op := []string{"GET ", "DELETE "}[dice.IntN(2)] + resource
	f := vultrtest.Fault{Skip: dice.IntN(3), Status: []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable}[dice.IntN(4)]}
	t.Logf("%s fails with %d after %d requests", op, f.Status, f.Skip)
	c.Fail(op, f)
	t.Cleanup(func() {
		if slices.ContainsFunc(c.Calls(), func(call vultrtest.Call) bool { return call.Op == op && call.Status == f.Status }) {
			met.Add(1)
		}
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		plan, resource string
		options        vultrtest.Options
	}{
		"cloud compute":           {vultrtest.Plan, "instances", vultrtest.Options{}},
		"bare metal":              {vultrtest.Metal, "bare-metals", vultrtest.Options{}},
		"cloud compute, and slow": {vultrtest.Plan, "instances", slow},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && tt.plan == vultrtest.Metal {
				t.Skip("the same calls of the other kind: run by make test")
			}
			t.Parallel()
			var met atomic.Int32
			if tt.options.Latency > 0 {
				if testing.Short() {
					t.Skip("the same calls, slower: run by make test")
				}
				t.Cleanup(func() {
					if n := met.Load(); n < 12 && !t.Failed() {
						t.Errorf("a fault was met by %d subtests, want 12", n)
					}
				})
			}
			gaps := map[string]string{}
			if tt.plan == vultrtest.Metal {
				for _, name := range []string{"image", "image, answer lost", "image, removal cut off"} {
					gaps[name] = "Vultr makes no snapshots of bare metal"
				}
			}
			cloudtest.Conformance(t, cloudtest.Harness{NoTokens: true, Apart: true, Gaps: gaps, New: func(t *testing.T) cloudtest.Cloud {
				const pageSize = 5
				o := tt.options
				o.PageSize, o.Lag, o.Boot, o.Metal, o.Snapshot = pageSize, lag/2, 10*time.Millisecond, 30*time.Millisecond, 20*time.Millisecond
				c := fakeCloud(t, o)
				if o.PerSecond > 0 {
					vultr.Unhurried(c.URL())
					failOnce(t, c, tt.resource, &met)
				}
				dir := t.TempDir()
				open := func() cloud.Provider { return over(t, c, func(v *vultr.Config) { v.Dir = dir }) }
				ops := map[cloudtest.Op]string{cloudtest.Launch: "POST ", cloudtest.List: "GET ", cloudtest.Terminate: "DELETE "}
				return cloudtest.Cloud{
					Provider: open(),
					Request:  request(tt.plan),
					Reopen:   open,
					PageSize: pageSize,
					FailPage: func() {
						c.Fail("GET "+tt.resource, vultrtest.Fault{Status: http.StatusBadGateway, Skip: 1, Times: tries})
					},
					LoseImage:   func() { c.Fail("POST snapshots", vultrtest.Fault{Lost: true}) },
					LoseAnswer:  func() { c.Fail("POST "+tt.resource, vultrtest.Fault{Lost: true}) },
					SetCapacity: func(n int) { c.SetCapacity(tt.plan, n) },
					Fail: func(op cloudtest.Op, kind cloud.Kind) {
						f := refusals[kind]
						if again := kind == cloud.Throttled || kind == cloud.Transient; again && op != cloudtest.Launch {
							f.Times = tries
						}
						c.Fail(ops[op]+tt.resource, f)
					},
				}
			}})
		})
	}
}
