package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/power"
)

// bootWorld is an engine's nodes, and what is asked of them.
type bootWorld struct {
	mu      sync.Mutex
	nodes   []power.Node
	inst    []power.Instance
	reports []string
	refuse  int // so many reports are not taken
	runs    []string
	open    int
	result  map[string]error // of a run, by instance; one that has none goes on until it is ended
	news    chan struct{}
	limits  map[string]time.Duration
	unready []string // what SetUnready was told
}

func (w *bootWorld) Health() power.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return power.Health{Nodes: slices.Clone(w.nodes), Instances: slices.Clone(w.inst)}
}

func (w *bootWorld) SetUnready(_ context.Context, pool, provider, why string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unready = append(w.unready, pool+" at "+provider+": "+why)
	return nil
}

func (w *bootWorld) Report(_ context.Context, instance, addr, stage, text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse > 0 {
		w.refuse--
		return errors.New("the journal is full")
	}
	w.reports = append(w.reports, fmt.Sprint(instance, " ", addr, " ", stage, ": ", text))
	return nil
}

func (w *bootWorld) run(ctx context.Context, p config.Pool, h ssh.Host, work ssh.Work) error {
	w.mu.Lock()
	end, _ := ctx.Deadline()
	w.limits[h.Instance] = time.Until(end)
	w.runs = append(w.runs, fmt.Sprintf("%s %s %s %s@%s:%d", p.Power.Name, h.Node, h.Instance, h.User, h.Addr, h.Port))
	w.open++
	result, ends := w.result[h.Instance]
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.open--; w.mu.Unlock() }()
	if !ends {
		<-ctx.Done()
		return ctx.Err()
	}
	return result
}

func (w *bootWorld) add(node, pool string, phase power.Phase, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = append(w.nodes, power.Node{Name: node, Pool: pool, Phase: phase, Since: time.Now(), Instance: "i-" + node})
	w.inst = append(w.inst, power.Instance{Instance: cloud.Instance{ID: "i-" + node, Addr: addr, State: cloud.Running}, Provider: "p", Assigned: node})
}

func (w *bootWorld) change(f func()) { w.mu.Lock(); f(); w.mu.Unlock(); w.news <- struct{}{} }

func (w *bootWorld) setups() *setups {
	pool := config.Pool{Power: power.Pool{Name: "a"}, Slurm: conf.Pool{ResumeTimeout: 10 * time.Minute}, SSH: &config.SSH{User: "root", Port: 2222},
		Boot: bootstrap.Config{URLs: []string{"http://h:1"}, ConfServers: []string{"h"}, MungeKey: "image"}}
	return &setups{engine: w, run: w.run, pools: map[source]config.Pool{{"a", "p"}: pool}, news: w.news, log: slog.New(slog.DiscardHandler),
		agent: func(string) (string, error) { return "", fs.ErrNotExist }, under: map[string]visit{}}
}

func newBootWorld() *bootWorld {
	return &bootWorld{result: map[string]error{}, news: make(chan struct{}, 1), limits: map[string]time.Duration{}}
}

// live runs a burstd's setups until stop.
func (w *bootWorld) live() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	s := w.setups()
	wg.Go(func() { _ = s.serve(ctx) })
	return func() { cancel(); wg.Wait() }
}

func TestSetups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBootWorld()
		w.add("c1", "a", power.Booting, "10.0.0.1")
		w.add("c2", "a", power.Booting, "") // no address so far
		w.add("c3", "a", power.Up, "10.0.0.3")
		w.add("c4", "other", power.Booting, "10.0.0.4")
		w.add("c5", "a", power.Booting, "fd00::5")
		w.add("c6", "a", power.Booting, "10.0.0.6")
		w.result["i-c1"] = nil
		w.result["i-c6"] = &ssh.Failure{Why: `setup line 3: "false": exit 1`, Tail: "the end"}
		w.refuse = 2
		stop := w.live()
		time.Sleep(time.Minute)
		w.mu.Lock() // but where time passes
		want := []string{"a c1 i-c1 root@10.0.0.1:2222", "a c5 i-c5 root@fd00::5:2222", "a c6 i-c6 root@10.0.0.6:2222"}
		if got := slices.Sorted(slices.Values(w.runs)); !slices.Equal(got, want) {
			t.Errorf("ran %q", got)
		}
		if want := []string{"i-c6 10.0.0.6 failed: setup line 3: \"false\": exit 1\nthe end"}; !slices.Equal(w.reports, want) {
			t.Errorf("reported %q", w.reports)
		}
		if left := w.limits["i-c1"]; left != 10*time.Minute {
			t.Errorf("a boot has %s", left)
		}
		// The late one gets its address; another's instance is given up.
		w.mu.Unlock()
		w.change(func() { w.inst[1].Addr, w.inst[1].State = "10.0.0.2", cloud.Pending }) // it is still installed
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.open != 1 || len(w.runs) != 3 {
			t.Errorf("before the cloud runs it, %d run of %q", w.open, w.runs)
		}
		w.mu.Unlock()
		w.change(func() { w.inst[1].State = cloud.Running })
		time.Sleep(time.Second)
		w.mu.Lock()
		if w.open != 2 || len(w.runs) != 4 {
			t.Errorf("%d run of %q", w.open, w.runs)
		}
		w.mu.Unlock()
		w.change(func() { w.inst[4].Doomed = "it is not wanted" })
		time.Sleep(time.Second)
		w.mu.Lock()
		if w.open != 1 || len(w.reports) != 1 {
			t.Errorf("%d run, reported %q", w.open, w.reports)
		}
		// The next burstd goes on with what still boots, also when it comes late, and reports what is reported again.
		w.mu.Unlock()
		stop()
		w.mu.Lock()
		if w.open != 0 || len(w.reports) != 1 {
			t.Errorf("after the end %d run, reported %q", w.open, w.reports)
		}
		w.runs = nil
		w.mu.Unlock()
		time.Sleep(time.Hour)
		stop = w.live()
		time.Sleep(time.Second)
		w.mu.Lock()
		if got, want := slices.Sorted(slices.Values(w.runs)), []string{"a c1 i-c1 root@10.0.0.1:2222", "a c2 i-c2 root@10.0.0.2:2222", "a c6 i-c6 root@10.0.0.6:2222"}; !slices.Equal(got, want) {
			t.Errorf("the next ran %q", got)
		}
		if left := w.limits["i-c2"]; left != leastSetup {
			t.Errorf("a late boot has %s", left)
		}
		// Another address of the same one.
		w.mu.Unlock()
		w.change(func() { w.inst[1].Addr = "10.0.0.7" })
		time.Sleep(time.Second)
		w.mu.Lock()
		if !slices.Contains(w.runs, "a c2 i-c2 root@10.0.0.7:2222") || w.open != 1 || len(w.runs) != 4 {
			t.Errorf("at its new address: %d run of %q", w.open, w.runs)
		}
		// A node that is raised anew, on another instance.
		w.mu.Unlock()
		w.change(func() { w.nodes[0].Instance, w.inst[0].ID, w.inst[0].Addr = "i-new", "i-new", "10.0.0.9" })
		time.Sleep(time.Second)
		w.mu.Lock()
		if !slices.Contains(w.runs, "a c1 i-new root@10.0.0.9:2222") {
			t.Errorf("the new instance: %q", w.runs)
		}
		w.mu.Unlock()
		time.Sleep(2 * leastSetup)
		w.mu.Lock()
		if !slices.ContainsFunc(w.reports, func(r string) bool { return strings.HasPrefix(r, "i-c2 10.0.0.7 failed: context deadline") }) {
			t.Errorf("time is up, and reported is %q", w.reports)
		}
		w.mu.Unlock()
		stop()
	})
}

// TestNoMungeKeyForAnybody: who is the first to answer at a public address may be anybody.
func TestNoMungeKeyForAnybody(t *testing.T) {
	for _, tt := range []struct {
		addr, munge string
		public, ok  bool
	}{
		{"10.0.0.1", "ssh:/k", false, true},
		{"fd00::1", "ssh:/k", false, true},
		{"100.64.0.1", "ssh:/k", false, true},
		{"192.0.2.1", "ssh:/k", false, false},
		{"::ffff:192.0.2.1", "ssh:/k", false, false},
		{"2001:db8::1", "ssh:/k", false, false},
		{"192.0.2.1", "ssh:/k", true, true},
		{"192.0.2.1", "image", false, true},
	} {
		w := newBootWorld()
		w.result["i-1"] = nil
		s := w.setups()
		pool := s.pools[source{"a", "p"}]
		pool.Boot.MungeKey, pool.SSH.Public = tt.munge, tt.public
		err := s.try(t.Context(), pool, power.Node{Name: "c1"}, power.Instance{Instance: cloud.Instance{ID: "i-1", Addr: tt.addr}})
		if (err == nil) != tt.ok || len(w.runs) > 0 != tt.ok || err != nil && !strings.Contains(err.Error(), "is a public address") {
			t.Errorf("%+v: %v, ran %q", tt, err, w.runs)
		}
	}
}

// consoles is a provider that shows one.
type consoles struct {
	cloud.Provider
	mu    sync.Mutex
	texts []string
}

func (c *consoles) Console(context.Context, string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.texts) > 1 {
		c.texts = c.texts[1:]
	}
	return c.texts[0], nil
}

func TestSetupsWaitForTheConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJTlQOkVHaRPtn4XPQ4vPvFkCRgtfbWBf8qgCGJF4s0f"
		w := newBootWorld()
		s := w.setups()
		block := "-----BEGIN SSH HOST KEY KEYS-----\n" + key + "\n-----END SSH HOST KEY KEYS-----\n"
		s.providers = map[string]cloud.Provider{"p": &consoles{texts: []string{"", "", "booting", block}}, "none": nil}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		keys, err := s.shown(ctx, power.Instance{Provider: "p"})
		if err != nil || len(keys) != 1 {
			t.Errorf("%v, %v", keys, err)
		}
		s.providers["p"] = &consoles{texts: []string{"booting"}}
		if _, err := s.shown(ctx, power.Instance{Provider: "p"}); err == nil || !strings.Contains(err.Error(), "has shown no host keys") {
			t.Error(err)
		}
		if _, err := s.shown(ctx, power.Instance{Provider: "none"}); err == nil || !strings.Contains(err.Error(), "shows no consoles") {
			t.Error(err)
		}
	})
}

func TestSetupFiles(t *testing.T) {
	dir := t.TempDir()
	agent, key := filepath.Join(dir, "burst-agent"), filepath.Join(dir, "munge.key")
	for path, text := range map[string]string{agent: "program", key: "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newBootWorld().setups()
	s.agent = func(arch string) (string, error) {
		if arch == "arm64" {
			return "", fs.ErrNotExist
		}
		return agent, nil
	}
	all, err := s.files(bootstrap.Config{MungeKey: "ssh:" + key}, "amd64")
	if err != nil || len(all) != 2 || string(all[0].Data) != "program" || all[0].To != "/usr/local/sbin/burst-agent" ||
		string(all[1].Data) != "secret" || all[1].Name != bootstrap.KeyFile || all[1].Mode != 0o400 || all[1].To != "" {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := s.files(bootstrap.Config{MungeKey: "image"}, "arm64"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := s.files(bootstrap.Config{MungeKey: "ssh:" + dir + "/none"}, "amd64"); err == nil || !strings.Contains(err.Error(), "reading the MUNGE key") {
		t.Error(err)
	}
}
