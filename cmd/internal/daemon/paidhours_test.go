package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/sandbox"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// The programs of Slurm's power saving, which start and end slurmds.
const (
	resumeNodes = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
spool=$(sed -n 's/^SlurmdSpoolDir=//p' "$SLURM_CONF")
sleep 1 # a slurmd of the second of the order would be taken for one from before it
for node in $(scontrol show hostnames "$1"); do
	mkdir -p "${spool%%\%n}$node"
	# Of the script's process group nothing outlives it: slurmctld kills a slurmd that has not left it yet.
	setsid env --default-signal slurmd -b -N "$node" -f "$SLURM_CONF" </dev/null >/dev/null 2>&1
done
`
	suspendNodes = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
pids=$(sed -n 's/^SlurmdPidFile=//p' "$SLURM_CONF")
for node in $(scontrol show hostnames "$1"); do
	echo "$node" >>"${SLURM_CONF%/*}/suspended"
	kill "$(cat "${pids%%\%n.pid}$node.pid")"
done
`
)

// withHours gives d a pool that is paid by the hour, and an engine that knows these nodes
// as up, with the ages of their instances at a time.
func withHours(t *testing.T, d *Daemon, ages map[string]time.Duration, now time.Time) *hours {
	t.Helper()
	var nodes []string
	for n := range ages {
		nodes = append(nodes, n)
	}
	pool := power.Pool{Name: "vhp", Provider: "lon", Nodes: nodes}
	d.cfg = &config.Config{Providers: []config.Provider{{Name: "lon", Kind: "vultr"}}, Pools: []config.Pool{{Power: pool, PaidUnit: time.Hour}, {Power: power.Pool{Name: "other"}}}}
	d.prices = newPrices(d.cfg.Providers, nil, slog.New(slog.DiscardHandler))
	d.journal = d.store
	var c power.Change
	for n, age := range ages {
		c.Nodes = append(c.Nodes, power.Node{Name: n, Pool: "vhp", Phase: power.Up, Instance: "i-" + n})
		c.Instances = append(c.Instances, power.Instance{Provider: "lon", Assigned: n, Instance: cloud.Instance{ID: "i-" + n, Pool: "vhp", State: cloud.Running,
			Offering: cloud.Offering{Type: "vhp", Market: cloud.OnDemand}, Launched: now.Add(-age)}})
	}
	if err := d.store.CommitPower(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d.engine = power.New(power.Config{Pools: []power.Pool{pool}}, d.store, controller{d.client, d.watcher}, nil, d.log)
	if err := d.engine.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d.newHours()
}

// TestPaidHoursOnARealSlurm: of nodes whose hour is about to end, those go that are
// idle, and nobody's.
func TestPaidHoursOnARealSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real daemons: slow end-to-end, run by make test")
	}
	program := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c, err := sandbox.Start(t.Context(), sandbox.Options{CloudNodes: 9, SuspendTime: time.Hour, Extra: "SuspendExcNodes=c6",
		ResumeProgram: program("resume", resumeNodes), SuspendProgram: program("suspend", suspendNodes)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	command := func(name string, args ...string) string {
		t.Helper()
		var out []byte
		cmd := c.Command(t.Context(), name, args...)
		cmd.Dir = c.Dir
		out, err := cmd.Output()
		if err != nil {
			stderr := ""
			if exit, ok := err.(*exec.ExitError); ok {
				stderr = string(exit.Stderr)
			}
			t.Fatalf("%s %q: %v: %s", name, args, err, stderr)
		}
		return strings.TrimSpace(string(out))
	}
	st, err := store.Open(t.Context(), newJournal(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	client := slurm.New(slurm.Exec{Conf: c.Conf})
	d := &Daemon{store: st, log: slog.New(slog.DiscardHandler), client: client, watcher: slurm.NewWatcher(client.Snapshot, minGap)}
	until := func(what string, cond func(*slurm.Snapshot) bool) {
		t.Helper()
		for end := time.Now().Add(90 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			snap, err := d.watcher.Fresh(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if cond(snap) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("not in time: %s: %+v", what, snap.Nodes)
			}
		}
	}
	state := func(node string, snap *slurm.Snapshot) string { return snap.Nodes[node].State.String() }
	command("scontrol", "update", "nodename=c[1-9]", "state=power_up")
	until("all are up", func(s *slurm.Snapshot) bool {
		return !slices.ContainsFunc(c.CloudNodes(), func(n string) bool { return state(n, s) != "IDLE+CLOUD" })
	})

	// c1 is idle, c2 has a job, c3 to c6 are kept, each in another way, of c7 the hour
	// is not at its end, and c8 is given a job while its end is decided.
	busy := command("sbatch", "--parsable", "-p", "cloud", "-w", "c2", "--exclusive", "--wrap", "until test -e go; do sleep 0.1; done")
	command("scontrol", "update", "nodename=c3", "state=drain", "reason=the site's")
	command("scontrol", "create", "reservation", "starttime=now", "duration=60", "user=root", "nodes=c4", "reservationname=theirs")
	command("scontrol", "create", "reservation", "starttime=now", "duration=60", "user=root", "nodes=c5", "flags=maint", "reservationname=work")
	command("scontrol", "update", "nodename=c9", "state=down", "reason=the site's")
	until("they are as they are to be", func(s *slurm.Snapshot) bool {
		return state("c2", s) == "ALLOCATED+CLOUD" && state("c4", s) != "IDLE+CLOUD" && state("c5", s) != "IDLE+CLOUD" && strings.HasPrefix(state("c9", s), "DOWN")
	})
	now := time.Now().Add(time.Minute) // all have been up for longer than Quiet
	ages := map[string]time.Duration{}
	for _, n := range c.CloudNodes() {
		ages[n] = 57 * time.Minute
	}
	ages["c7"] = 50 * time.Minute
	ages["c1"] = 5*time.Hour + 57*time.Minute
	h := withHours(t, d, ages, now)
	raced := make(chan string, 1)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	go func() {
		cmd := c.Command(ctx, "sbatch", "--parsable", "-p", "cloud", "-w", "c8", "--no-requeue", "--wrap", "sleep 2")
		cmd.Dir = c.Dir
		out, _ := cmd.Output()
		raced <- strings.TrimSpace(string(out))
	}()
	begun := time.Now()
	if err := h.round(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	until("c1 goes", func(s *slurm.Snapshot) bool { return s.Nodes["c1"].State.Has(slurm.PoweringDown) })
	told := func() map[string]int {
		t.Helper()
		events, err := st.Events(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]int{}
		for _, e := range events {
			if e.Kind == "power-down" {
				told[e.Node]++
			}
		}
		delete(told, "c8") // as the moment has it
		return told
	}
	if all := told(); len(all) != 1 || all["c1"] != 1 {
		t.Errorf("events of %v", all)
	}
	t.Logf("from the decision to SuspendProgram's call: %s", time.Since(begun).Round(10*time.Millisecond))
	race := <-raced
	if race == "" {
		t.Fatal("the job for c8 was not taken")
	}
	until("the job for c8 has run to its end, on this or its next instance", func(s *slurm.Snapshot) bool {
		return command("squeue", "-h", "-t", "all", "-j", race, "-o", "%T") == "COMPLETED"
	})
	// Nothing more is to be done; but of c9, which Slurm may have taken back by now
	// (ReturnToService), no more is said.
	for range 2 {
		if err := h.round(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	until("c1 is off", func(s *slurm.Snapshot) bool { return state("c1", s) == "IDLE+CLOUD+POWERED_DOWN" })
	if got := command("squeue", "-h", "-t", "all", "-j", busy, "-o", "%T"); got != "RUNNING" {
		t.Errorf("the job on c2 is %s", got)
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, "suspended"))
	went := strings.Fields(string(text))
	if err != nil || !slices.Contains(went, "c1") {
		t.Errorf("%v have gone: %v", went, err)
	}
	for _, n := range []string{"c2", "c3", "c4", "c5", "c6", "c7"} {
		if slices.Contains(went, n) {
			t.Errorf("%s has gone", n)
		}
	}
	if all := told(); all["c1"] != 1 || all["c2"]+all["c3"]+all["c4"]+all["c5"]+all["c6"]+all["c7"] > 0 {
		t.Errorf("events of %v", all)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until("the job on c2 ends", func(s *slurm.Snapshot) bool {
		return command("squeue", "-h", "-t", "all", "-j", busy, "-o", "%T") == "COMPLETED"
	})
}

// TestPaidHoursRounds: what a round of burstd does, with a Slurm that answers or does not.
func TestPaidHoursRounds(t *testing.T) {
	t.Parallel()
	idle := func(t *testing.T) (*past, time.Time) {
		p := newPast(t, slurmtest.Options{})
		p.client = slurm.New(p.Controller)
		if _, _, err := p.Controller.Run(t.Context(), "scontrol", "update", "nodename=c[1-2]", "state=power_up"); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			snap, err := p.watcher.Fresh(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if snap.Nodes["c1"].State.String() == "IDLE+CLOUD" && snap.Nodes["c2"].State.String() == "IDLE+CLOUD" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%+v", snap.Nodes)
			}
		}
		return p, time.Now().Add(time.Minute)
	}
	begin := func(t *testing.T) (*past, *hours, time.Time) {
		p, now := idle(t)
		return p, withHours(t, p.Daemon, map[string]time.Duration{"c1": 57 * time.Minute, "c2": 30 * time.Minute}, now), now
	}
	t.Run("one is due", func(t *testing.T) {
		t.Parallel()
		p, h, now := begin(t)
		defer p.stop()
		if err := h.round(t.Context(), now.Add(-10*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n := powerDowns(p); n != "" {
			t.Errorf("too soon: %s", n)
		}
		if err := h.round(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if n := powerDowns(p); n != "c1" {
			t.Errorf("%q was powered down", n)
		}
		if err := h.round(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if n := powerDowns(p); n != "c1" {
			t.Errorf("once more: %s", n)
		}
	})
	// The same node, idle at the same age of its instance, stays if that is AWS's, and goes if it is
	// Vultr's, with what genconf makes of the same file.
	t.Run("a pool of two clouds", func(t *testing.T) {
		t.Parallel()
		p, now := idle(t)
		defer p.stop()
		p.journal = p.store
		p.cfg = twoClouds(t)
		p.prices = newPrices(nil, nil, p.log)
		if text := conf.Fragment(conf.Site{}, p.cfg.Slurm("/opt")); !strings.Contains(text, "PartitionName=cloud Nodes=c[1-2] State=UP SuspendTime=600 ") {
			t.Errorf("genconf has not the usual SuspendTime:\n%s", text)
		}
		for _, tt := range []struct{ provider, plan, went string }{{"east", "c6i.large", ""}, {"lon", "vhp-8c-16gb-amd", "c1"}} {
			id := "i-" + tt.provider
			if err := p.store.CommitPower(t.Context(), power.Change{
				Nodes: []power.Node{{Name: "c1", Pool: "mixed", Phase: power.Up, Instance: id}},
				Instances: []power.Instance{{Provider: tt.provider, Assigned: "c1", Instance: cloud.Instance{ID: id, Pool: "mixed", State: cloud.Running,
					Offering: cloud.Offering{Type: tt.plan, Market: cloud.OnDemand}, Launched: now.Add(-57 * time.Minute)}}},
			}); err != nil {
				t.Fatal(err)
			}
			p.engine = power.New(power.Config{Pools: []power.Pool{p.cfg.Pools[0].Power}}, p.store, controller{p.client, p.watcher}, nil, p.log)
			if err := p.engine.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.newHours().round(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			if went := powerDowns(p); went != tt.went {
				t.Errorf("with an instance of %s %q was powered down, want %q", tt.provider, went, tt.went)
			}
		}
	})
	for name, reads := range map[string]bool{"Slurm answers late": true, "the journal is slow": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, h, now := begin(t)
			defer p.stop()
			const took = 300 * time.Millisecond
			if reads {
				p.client = slurm.New(slowSlurm{p.Controller, took})
			} else {
				p.journal = slowJournal{p.journal, took}
			}
			if err := h.round(t.Context(), now.Add(2*time.Minute-took/2)); err != nil { // in the last moment at which c1 is due
				t.Fatal(err)
			}
			if n := powerDowns(p); n != "" {
				t.Errorf("%s was powered down when it was too late for it", n)
			}
			events, err := p.store.Events(t.Context(), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if reads && e.Kind == "power-down" {
					t.Errorf("event %+v", e)
				}
			}
		})
	}
	t.Run("Slurm is away", func(t *testing.T) {
		t.Parallel()
		p, h, now := begin(t)
		defer p.stop()
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := h.round(ctx, now); err == nil {
			t.Error("no error")
		}
		if n := powerDowns(p); n != "" {
			t.Errorf("%s", n)
		}
	})
	t.Run("no pool is paid by the hour", func(t *testing.T) {
		if err := (&Daemon{cfg: &config.Config{Pools: []config.Pool{{}}}}).keepHours(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// twoClouds is a configuration with a pool that buys of AWS and, where that has nothing, of Vultr.
func twoClouds(t *testing.T) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burst.toml")
	if err := os.WriteFile(path, []byte(`cluster = "c"
[daemon]
listen = "head:9811"
[provider.east]
kind = "aws"
region = "us-east-1"
[provider.lon]
kind = "vultr"
region = "lhr"
[pool.mixed]
provider = "east"
nodes = "c[1-2]"
partition = "cloud"
instance_types = ["c6i.large"]
image = "ami-0123456789abcdef0"
subnets = ["subnet-0a"]
security_groups = ["sg-0a"]
munge_key = "image"
[[pool.mixed.then]]
provider = "lon"
instance_types = ["vhp-8c-16gb-amd"]
image = "os:1"
munge_key = "image"
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestFreeHoursAreUsed: an idle node whose month has had its most stays until the month's end, by the
// most of its own plan.
func TestFreeHoursAreUsed(t *testing.T) {
	d := &Daemon{cfg: &config.Config{Providers: []config.Provider{{Name: "lon", Kind: "vultr"}}}}
	lon := &plans{usd: map[string]float64{"vhp-8c-16gb-amd": 1, "vcg-a100-6c-60gb": 1}, month: map[string]float64{"vhp-8c-16gb-amd": 672, "vcg-a100-6c-60gb": 730}}
	d.prices = newPrices(d.cfg.Providers, map[string]cloud.Provider{"lon": lon}, slog.New(slog.DiscardHandler))
	h := d.newHours()
	of := power.Instance{Provider: "lon", Instance: cloud.Instance{Launched: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	for plan, want := range map[string]time.Time{"vhp-8c-16gb-amd": time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), "vcg-a100-6c-60gb": time.Date(2026, 1, 30, 1, 0, 0, 0, time.UTC)} {
		of.Offering = cloud.Offering{Type: plan, Market: cloud.OnDemand}
		d.prices.learn(t.Context(), []power.Instance{of})
		now := time.Date(2026, 1, 30, 0, 57, 0, 0, time.UTC)
		if got := h.paid(of); !got.Until(now).Equal(want) || got.Due(now) != (want.Day() == 30) {
			t.Errorf("%s is paid until %s, due %v; want %s", plan, got.Until(now), got.Due(now), want)
		}
	}
}

// slowSlurm is a Slurm whose commands take that long.
type slowSlurm struct {
	slurm.Runner
	by time.Duration
}

func (l slowSlurm) Run(ctx context.Context, name string, args ...string) ([]byte, []byte, error) {
	time.Sleep(l.by)
	return l.Runner.Run(ctx, name, args...)
}

// slowJournal is the same of a journal.
type slowJournal struct {
	crash.Journal
	by time.Duration
}

func (l slowJournal) CommitFT(ctx context.Context, c ft.Change) error {
	time.Sleep(l.by)
	return l.Journal.CommitFT(ctx, c)
}

// powerDowns are the nodes that Slurm was told to power down.
func powerDowns(p *past) string {
	var all []string
	for _, c := range p.Calls() {
		if line := strings.Join(c.Args, " "); strings.HasSuffix(line, "state=power_down") {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(line, "update nodename="), " state=power_down"))
		}
	}
	return strings.Join(all, " ")
}
