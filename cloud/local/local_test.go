package local

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

func TestMain(m *testing.M) {
	Main() // the instances are this test binary again
	if text := os.Getenv(launcherEnv); text != "" {
		launcherMain(text)
	}
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) { // nobody has said otherwise
		flag.Set("test.parallel", "32") // the tests wait, for the second in which a slurmd may boot
	}
	os.Exit(m.Run())
}

var small = cloud.Offering{Type: "small", Zone: "a", Market: cloud.Spot}

// stubSlurmd notes its pid and time in the instance's folder, and leaves a
// process in a session of its own, as slurmstepd is.
const stubSlurmd = `#!/bin/sh
date +%s%N >stub.tmp && mv stub.tmp stub.time
echo "$@" >stub.args
echo $$ >stub.pid
setsid sh -c 'echo $$ >step.tmp && mv step.tmp stub.step; sleep 1000; :' &
exec sleep 1000
`

// configure returns a configuration with a stub for slurmd, all of whose
// instances end with the test.
func configure(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{Dir: filepath.Join(dir, "cloud"), Conf: filepath.Join(dir, "slurm.conf"), Slurmd: filepath.Join(dir, "slurmd")}
	write(t, cfg.Conf, "ClusterName=test\n")
	write(t, cfg.Slurmd, stubSlurmd)
	t.Cleanup(func() {
		ids, err := store{cfg.Dir}.ids()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := Cleanup(cfg); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
		for _, id := range ids {
			if left, err := slurmd.Marked(instanceEnv + "=" + id); err != nil || len(left) > 0 {
				t.Errorf("instance %s has left the processes %v, %v", id, left, err)
			}
		}
		if _, err := os.Stat(cfg.Dir); err == nil {
			t.Errorf("%s is still there", cfg.Dir)
		}
	})
	return cfg
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cfg Config) *Provider {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(token string, count int) cloud.LaunchRequest {
	return cloud.LaunchRequest{Token: token, Cluster: "c", Pool: "p", Offering: small, Count: count}
}

// start launches one instance and waits until its slurmd runs as the node.
func start(t *testing.T, p *Provider, token, node string) string {
	t.Helper()
	got, err := p.Launch(t.Context(), request(token, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Assign(t.Context(), map[string]string{got[0].ID: node}); err != nil {
		t.Fatal(err)
	}
	await(t, "slurmd of "+node, func() bool {
		there, err := p.store.has(got[0].ID, "stub.step")
		return err == nil && there
	})
	return got[0].ID
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

func state(t *testing.T, p *Provider, id string) cloud.State {
	t.Helper()
	found, err := p.List(t.Context(), cloud.Filter{Cluster: "c", IDs: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		return ""
	}
	return found[0].State
}

func awaitState(t *testing.T, p *Provider, id string, want cloud.State) {
	t.Helper()
	await(t, fmt.Sprintf("instance %s %s", id, want), func() bool { return state(t, p, id) == want })
}

// number waits for a file of the instance that holds a number.
func number(t *testing.T, p *Provider, id, file string) int {
	t.Helper()
	return numberIn(t, p.store.path(id, file))
}

func numberIn(t *testing.T, path string) int {
	t.Helper()
	var n int
	await(t, path, func() bool {
		data, err := os.ReadFile(path)
		if err == nil {
			_, err = fmt.Sscan(string(data), &n)
		}
		return err == nil
	})
	return n
}

func gone(pid int) bool {
	_, err := slurmd.Started(pid)
	return err != nil
}

// lossy loses the answer of a launch when it is told to.
type lossy struct {
	*Provider
	lose atomic.Bool
}

func (l *lossy) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	got, err := l.Provider.Launch(ctx, r)
	if l.lose.Swap(false) {
		return nil, wrap("launch", cloud.Transient, context.DeadlineExceeded)
	}
	return got, err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cloudtest.Conformance(t, cloudtest.Harness{Apart: true, New: func(t *testing.T) cloudtest.Cloud {
		cfg := configure(t)
		p := &lossy{Provider: open(t, cfg)}
		control := Control{cfg.Dir}
		try := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		return cloudtest.Cloud{
			Provider:    p,
			Request:     cloud.LaunchRequest{Offering: small},
			Reopen:      func() cloud.Provider { return open(t, cfg) },
			LoseAnswer:  func() { p.lose.Store(true) },
			SetCapacity: func(n int) { try(control.Refuse("small/*/spot", n)) },
			Announce:    func(id string) { try(control.Evict(id, time.Minute)) },
		}
	}})
}

func TestValidate(t *testing.T) {
	good := Config{Dir: "/var/lib/burst/local", Conf: "/etc/slurm/slurm.conf"}
	tests := map[string]struct {
		change func(*Config)
		want   string // "" for valid
	}{
		"plain":            {func(*Config) {}, ""},
		"netns":            {func(c *Config) { c.Network = NetNS }, ""},
		"netns and subnet": {func(c *Config) { c.Network, c.Subnet = NetNS, "10.9.0.0/24" }, ""},
		"dir relative":     {func(c *Config) { c.Dir = "x" }, `dir "x" is not an absolute path`},
		"no conf":          {func(c *Config) { c.Conf = "" }, `conf "" is not the absolute path`},
		"other network":    {func(c *Config) { c.Network = "vlan" }, `network "vlan" is neither`},
		"subnet alone":     {func(c *Config) { c.Subnet = "10.9.0.0/24" }, "only for network"},
		"subnet broken":    {func(c *Config) { c.Network, c.Subnet = NetNS, "10.9.0" }, "subnet: "},
		"subnet a host":    {func(c *Config) { c.Network, c.Subnet = NetNS, "10.9.0.1/24" }, "is not an IPv4 network"},
		"subnet too small": {func(c *Config) { c.Network, c.Subnet = NetNS, "10.9.0.0/31" }, "is not an IPv4 network"},
		"subnet of IPv6":   {func(c *Config) { c.Network, c.Subnet = NetNS, "fd00::/64" }, "is not an IPv4 network"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := good
			tt.change(&c)
			err := c.Validate()
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}
