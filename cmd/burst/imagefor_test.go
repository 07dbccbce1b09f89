package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
)

// twoSources is a burst.toml whose pool buys of this host, and then of a fake of Vultr.
func twoSources(t *testing.T, fake *vultrtest.Cloud, b api.Backend) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"key": vultrtest.Key, "munge.key": "the cluster's secret of more than 32 bytes", "cluster-id": "f00d", "burst.toml": fmt.Sprintf(`cluster = "c"
[daemon]
state = %[1]q
socket = "%[1]s/s"
listen = "head.example.org:9811"
[provider.here]
kind = "local"
[provider.lon]
kind = "vultr"
region = "lhr"
endpoint = %[2]q
api_key_file = "%[1]s/key"
[pool.v]
provider = "here"
nodes = "v1"
partition = "cloud"
instance_types = ["small"]
cpus = 1
real_memory = 1000
ports = "17001"
[[pool.v.then]]
provider = "lon"
instance_types = ["vhp-8c-16gb-amd", "vc2-2c-4gb"]
image = "os:2136"
munge_key = "ssh:%[1]s/munge.key"
ssh = { key = "%[1]s/none", host_key = "user-data" }
`, dir, fake.URL())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(serveAt(t, b, filepath.Join(dir, "s")))
	cfg, err := config.Load(filepath.Join(dir, "burst.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// heardBy is what a burstd that has read the same file says of itself.
func heardBy(cfg *config.Config) api.Status {
	s := api.Status{Cluster: "f00d", Providers: map[string]string{}, Places: map[string]string{}, Accounts: map[string]string{}}
	for _, p := range cfg.Providers {
		s.Providers[p.Name], s.Places[p.Name] = "ok", p.Place()
		if a, ok := must(openedOf(cfg).get(context.Background(), p.Name)).(cloud.Accountant); ok {
			s.Accounts[p.Name] = api.AccountMark(must(a.Account(context.Background())))
		}
	}
	return s
}

func vultrFake(t *testing.T) *vultrtest.Cloud {
	t.Helper()
	fake := vultrtest.New(vultrtest.Options{})
	if err := fake.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fake.Close(); err != nil {
			t.Error(err)
		}
	})
	return fake
}

// TestImageOfASource: an image is made for the source that is named, or for the first; and
// nothing is launched where none can be made.
func TestImageOfASource(t *testing.T) {
	t.Parallel()
	fake := vultrFake(t)
	b := new(apitest.Backend)
	cfg := twoSources(t, fake, b)
	b.SetStatus(heardBy(cfg))
	for provider, want := range map[string]string{
		"":     "provider here (local) has no machine images",
		"here": "provider here (local) has no machine images",
		"east": "pool v buys nothing of a provider east",
		"lon":  "the instance could not be set up over SSH", // there is no key: nothing is launched
	} {
		var said bytes.Buffer
		err := runImageBuild(t.Context(), streams{&said, &said}, imageBuildOptions{config: cfg.Path, pool: "v", provider: provider, within: time.Hour})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--provider %q: %v, want an error with %q", provider, err, want)
		}
		if code := cli.Report(new(bytes.Buffer), err); (code == cli.Usage) != (provider != "lon") {
			t.Errorf("--provider %q: exit code %d", provider, code)
		}
		if hint := "this image is for here"; strings.Contains(said.String(), hint) != (provider == "") {
			t.Errorf("--provider %q: said %q", provider, said.String())
		}
	}
	source, err := sourceOf(cfg.Pools[0], "lon")
	if err != nil || source.Power.Image != "os:2136" || source.SSH == nil {
		t.Fatalf("%+v, %v", source.Power, err)
	}
	provider, err := openedOf(cfg).get(t.Context(), "lon")
	if err != nil {
		t.Fatal(err)
	}
	r, err := imaging.Way{Pool: source, Provider: provider}.Request(t.Context(), "f00d")
	if err != nil || r.Offering != (cloud.Offering{Type: "vc2-2c-4gb", Market: cloud.OnDemand}) {
		t.Errorf("it is launched as %s: %v; want the plan with the smallest disk", r.Offering, err)
	}
	if n := fake.Count("POST instances"); n != 0 {
		t.Errorf("%d launches", n)
	}
	var out bytes.Buffer
	if err := tellImage(&out, imageBuildOptions{pool: "v", provider: "lon"}, builtImage{Image: cloud.Image{ID: "snapshot:s"}, Provider: "lon"}, nil); err != nil ||
		!strings.Contains(out.String(), "write into what pool v says of provider lon:\n\nimage = \"snapshot:s\"\n") {
		t.Errorf("%v, printed:\n%s", err, out.String())
	}
	for _, tt := range []struct {
		pool config.Pool
		id   string
		has  time.Duration
		want bool
	}{
		{source, "snapshot:s", 15 * time.Minute, true}, {source, "snapshot:s", 45 * time.Minute, false},
		{cfg.Pools[0].Sources()[0], "ami-0123456789abcdef0", 15 * time.Minute, false},
	} {
		tt.pool.Slurm.ResumeTimeout = tt.has
		out.Reset()
		err := tellImage(&out, imageBuildOptions{pool: "v"}, builtImage{Image: cloud.Image{ID: tt.id}, slow: slowImage(cfg, tt.pool, tt.id)}, nil)
		if text := out.String(); err != nil || strings.Contains(text, "into [pool.v]:\n\nresume_timeout = \"45m\"\n") != tt.want || strings.Contains(text, "resume_timeout") != tt.want {
			t.Errorf("%s, with %s: %v, printed:\n%s", tt.id, tt.has, err, text)
		}
	}
}

// TestMayBuild: nothing is launched for an image where the red button was pressed, or no burstd
// would end it.
func TestMayBuild(t *testing.T) {
	t.Parallel()
	b := new(apitest.Backend)
	cfg := twoSources(t, vultrFake(t), b)
	source, err := sourceOf(cfg.Pools[0], "lon")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		with func(s *api.Status)
		fail error
		wish bool
		want string // "": it may
	}{
		{"good", func(s *api.Status) {}, nil, false, ""},
		{"paused", func(s *api.Status) { s.Paused = &api.Paused{Why: "a test"} }, nil, false, "burstd is paused: a test"},
		{"to be paused", func(s *api.Status) {}, nil, true, "burstd is to be paused: burst stop-all"},
		{"its pool was stopped by the button", func(s *api.Status) {
			s.Stopped, s.ByHand = map[string]string{"v": "burst stop-all (by uid 0)"}, []string{"v"}
		}, nil, false, "pool v is stopped: burst stop-all"},
		{"its pool was stopped by hand", func(s *api.Status) {
			s.Stopped, s.ByHand = map[string]string{"v": "audit (by uid 0)"}, []string{"v"}
		}, nil, false, "pool v is stopped: audit"},
		{"another was", func(s *api.Status) {
			s.Stopped, s.ByHand = map[string]string{"w": "burst stop-all (by uid 0)"}, []string{"w"}
		}, nil, false, ""},
		{"its boots fail", func(s *api.Status) { s.Stopped = map[string]string{"v": "5 boots in a row have failed"} }, nil, false, ""},
		{"another cluster's burstd", func(s *api.Status) { s.Cluster = "beef" }, nil, false, "says that this cluster is f00d, and burstd that it is beef"},
		{"burstd fails", func(s *api.Status) {}, errors.New("no disk"), false, "without burstd nobody would end the instance"},
		{"burstd does not know the provider", func(s *api.Status) { delete(s.Providers, "lon") }, nil, false, "the burstd that runs has no provider lon"},
		{"burstd has it in another region", func(s *api.Status) { s.Places["lon"] = strings.Replace(s.Places["lon"], "lhr", "ewr", 1) }, nil, false, "vultr region=ewr"},
		{"burstd is older and does not say where it is", func(s *api.Status) { s.Places = nil }, nil, false, `and "" in the burstd that runs`},
		{"the provider does not answer burstd", func(s *api.Status) { s.Providers["lon"] = "no such key" }, nil, false, "lon: no such key"},
		{"another does not", func(s *api.Status) { s.Providers["here"] = "no such folder" }, nil, false, ""},
	} {
		status := heardBy(cfg)
		tt.with(&status)
		b.SetStatus(status)
		b.Fail(tt.fail)
		if tt.wish {
			if err := stopall.Leave(cfg.Endpoint.PauseFile(), stopall.Wish{By: "uid 0", Why: stopAllReason}); err != nil {
				t.Fatal(err)
			}
		}
		err := mayBuild(t.Context(), cfg, source, "f00d")
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
		if tt.wish {
			if err := os.Remove(cfg.Endpoint.PauseFile()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestImageDeleteAsksBurstd: an image that the burstd that runs would launch is not deleted, whatever
// burst.toml says by now; where none runs, burst.toml is all there is.
func TestImageDeleteAsksBurstd(t *testing.T) {
	t.Parallel()
	fake := vultrFake(t)
	b := new(apitest.Backend)
	cfg := twoSources(t, fake, b)
	id := "snapshot:" + fake.AddSnapshot("burst:cluster=f00d burst:image=os:2136 burst:pool=v burst:token=image-20260101T000000Z-A", "complete", time.Now())
	remove := func() error {
		var said bytes.Buffer
		return runImageDelete(t.Context(), streams{&said, &said}, imageDeleteOptions{config: cfg.Path, ids: []string{id}, yes: true})
	}
	for name, tt := range map[string]struct {
		pools []api.PoolStatus
		fail  error
		want  string
	}{
		"its pool has it":     {[]api.PoolStatus{{Pool: "v", Image: "os:1"}, {Pool: "w", Image: id}}, nil, "is that of pool w in the burstd that runs"},
		"it says the bare id": {[]api.PoolStatus{{Pool: "w", Image: strings.TrimPrefix(id, "snapshot:")}}, nil, "is that of pool w in the burstd that runs"},
		"it does not say":     {nil, errors.New("no disk"), "is not known; nothing is deleted"},
	} {
		b.SetPools(tt.pools)
		b.Fail(tt.fail)
		if err := remove(); err == nil || !strings.Contains(err.Error(), tt.want) || len(fake.Snapshots()) != 1 {
			t.Errorf("%s: %v, want an error with %q; left is %v", name, err, tt.want, fake.Snapshots())
		}
	}
	b.Fail(nil)
	b.SetPools([]api.PoolStatus{{Pool: "v", Image: "os:2136"}})
	if err := remove(); err != nil || len(fake.Snapshots()) != 0 {
		t.Errorf("%v, left is %v", err, fake.Snapshots())
	}
}

// TestRoomForBuild: nothing is launched for an image when a cap of the cluster has nothing left, or nobody knows, unless that is meant.
func TestRoomForBuild(t *testing.T) {
	t.Parallel()
	b := new(apitest.Backend)
	cfg := twoSources(t, vultrFake(t), b)
	status := heardBy(cfg)
	day := api.BudgetRow{Of: "cluster", Period: "day", Cap: 5, Spent: 4, Committed: 1}
	room, account := day, day
	room.Left, account.Of, account.Name = 1, "account", "lab"
	for _, tt := range []struct {
		name string
		caps []api.BudgetRow
		fail error
		want string // "": it may
	}{
		{"no budget", nil, nil, ""},
		{"room", []api.BudgetRow{room}, nil, ""},
		{"an account's has none", []api.BudgetRow{account, room}, nil, ""},
		{"one of two has none", []api.BudgetRow{room, day}, nil, "the cluster's budget of 5.00 USD a day has nothing left: 4.00 are spent, and 1.00 committed"},
		{"burstd does not say", nil, errors.New("no disk"), "how the cluster's budget stands is not known"},
	} {
		b.SetStatus(status)
		b.SetBudget(tt.caps)
		b.Fail(tt.fail)
		for _, over := range []bool{false, true} {
			var said bytes.Buffer
			err := roomForBuild(t.Context(), &said, cfg, over)
			if (err != nil) != (tt.want != "" && !over) || err != nil && !strings.Contains(err.Error(), "nothing is launched: "+tt.want) {
				t.Errorf("%s, over %v: %v", tt.name, over, err)
			}
			if over && !strings.HasPrefix(said.String(), tt.want) || (said.Len() > 0) != (over && tt.want != "") {
				t.Errorf("%s, over %v: said %q", tt.name, over, said.String())
			}
		}
	}
	b.Fail(nil)
	b.SetBudget([]api.BudgetRow{day})
	for over, want := range map[bool]string{false: "has nothing left", true: "the instance could not be set up over SSH"} { // there is no key
		var said bytes.Buffer
		err := runImageBuild(t.Context(), streams{&said, &said}, imageBuildOptions{config: cfg.Path, pool: "v", provider: "lon", within: time.Hour, overBudget: over})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("over %v: %v", over, err)
		}
	}
}
