package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestAnotherClustersBurstd: the state folder and burstd name two clusters, and
// nothing is ended until somebody says which one is meant.
func TestAnotherClustersBurstd(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "b.sock")
	backend := new(apitest.Backend)
	backend.SetStatus(api.Status{Cluster: "f00d"})
	defer serveAt(t, backend, socket)()
	client := api.NewClient(socket)
	defer client.Close()
	for _, tt := range []struct {
		cluster string
		named   bool
		asks    bool
	}{{"f00d", false, true}, {"beef", true, true}, {"beef", false, false}} {
		fake := cloudtest.NewFake(cloudtest.Options{})
		if _, err := fake.Launch(t.Context(), cloud.LaunchRequest{Token: "t", Cluster: "beef", Count: 1, Offering: cloud.Offering{Type: "m"}}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		b := &button{stopAllOptions: stopAllOptions{cluster: tt.cluster, in: strings.NewReader("no\n")}, streams: streams{io.Discard, &out}, client: client, named: tt.named,
			cfg: &config.Config{Endpoint: endpoint.Config{State: dir}}, providers: map[string]cloud.Provider{"a": fake}}
		err := b.press(t.Context())
		if asks := strings.Contains(out.String(), "Type"); err == nil || asks != tt.asks || !asks && !strings.Contains(err.Error(), "burstd that it is f00d") || fake.Calls(cloudtest.Terminate) > 0 {
			t.Errorf("%+v: %v\n%s", tt, err, out.String())
		}
	}
}

// TestStopAllSaysWhichFilesGo: those of a server of files that is among what ends.
func TestStopAllSaysWhichFilesGo(t *testing.T) {
	server := config.Pool{Power: power.Pool{Name: "nfs", Provider: "lon"}, Slurm: conf.Pool{Server: true}, Boot: bootstrap.Config{Export: bootstrap.Export{Folder: "/shared"}}}
	for pool, want := range map[string]bool{"nfs": true, "vhp": false} {
		var out bytes.Buffer
		b := &button{streams: streams{io.Discard, &out}, cfg: &config.Config{Pools: []config.Pool{server}}}
		if err := b.show(t.Context(), map[string][]cloud.Instance{"lon": {{ID: "i-1", Pool: pool}}}, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "Pool nfs serves files: what is in /shared is lost.\n"); got != want {
			t.Errorf("of pool %s:\n%s", pool, out.String())
		}
	}
}

// assigned is a cloud whose instances say which node they are.
type assigned struct {
	cloud.Provider
	node string
}

func (a assigned) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	all, err := a.Provider.List(ctx, f)
	for i := range all {
		all[i].Node = a.node
	}
	return all, err
}

// TestStopAllOfARenamedPool: its instances have the old name, and one that has no instance under either
// name is a mistake.
func TestStopAllOfARenamedPool(t *testing.T) {
	pool := config.Pool{Power: power.Pool{Name: "new", Provider: "lon", Nodes: []string{"c1"}}, Slurm: conf.Pool{Server: true}}
	for _, tt := range []struct {
		pool, launched, node string
		want                 string // in what is said
	}{
		{"new", "old", "c1", "1 instances of cluster"},
		{"old", "old", "c1", "no instance of a pool old"},
		{"new", "old", "c2", "0 instances of cluster"},
		{"new", "new", "x1", "1 instances of cluster"}, // the node has left the file
		{"nwe", "old", "c1", "no instance of a pool nwe"},
		{"reused", "reused", "c1", "0 instances of cluster"}, // its name was the first pool's
		{"new", "reused", "c1", "1 instances of cluster"},
		{"new", "old", "c1", "Pool new serves files"},
		{"new", "reused", "c1", "Pool new serves files"},
	} {
		fake := cloudtest.NewFake(cloudtest.Options{})
		if _, err := fake.Launch(t.Context(), cloud.LaunchRequest{Token: "t", Cluster: "beef", Pool: tt.launched, Count: 1, Offering: cloud.Offering{Type: "m"}}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		client := api.NewClient(filepath.Join(t.TempDir(), "no.sock"))
		b := &button{stopAllOptions: stopAllOptions{cluster: "beef", pool: tt.pool, in: strings.NewReader("no\n")}, streams: streams{io.Discard, &out}, client: client,
			cfg: &config.Config{Pools: []config.Pool{pool, {Power: power.Pool{Name: "reused", Provider: "lon", Nodes: []string{"d1"}}}}, Endpoint: endpoint.Config{State: t.TempDir()}}, providers: map[string]cloud.Provider{"lon": assigned{fake, tt.node}}}
		if err := b.press(t.Context()); err == nil || !strings.Contains(out.String()+err.Error(), tt.want) {
			t.Errorf("%+v: %v\n%s", tt, err, out.String())
		}
		client.Close()
	}
}

// TestFilesOfAPoolThatLeft burst.toml are told by burstd's word: before all of it ends, and before a drill.
func TestFilesOfAPoolThatLeft(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "b.sock")
	backend := new(apitest.Backend)
	server := config.Pool{Power: power.Pool{Name: "nfs", Provider: "lon"}, Slurm: conf.Pool{Server: true}, Boot: bootstrap.Config{Export: bootstrap.Export{Folder: "/shared"}}}
	fake := cloudtest.NewFake(cloudtest.Options{})
	got, err := fake.Launch(t.Context(), cloud.LaunchRequest{Token: "t", Cluster: "beef", Pool: "nfs", Count: 1, Offering: cloud.Offering{Type: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	backend.SetStatus(api.Status{Cluster: "beef", Files: []api.FilesOn{{Instance: got[0].ID, Node: "lon-nfs", Pool: "nfs"}, {Instance: "i-elsewhere", Node: "x", Pool: "nfs"}}})
	defer serveAt(t, backend, socket)()
	client := api.NewClient(socket)
	defer client.Close()
	want := "Pool nfs, which has left burst.toml, serves files: what lon-nfs (" + got[0].ID + ") serves is lost.\n"
	for name, tt := range map[string]struct {
		pools []config.Pool
		named bool
		told  int
	}{"it is there": {[]config.Pool{server}, false, 0}, "it has left": {nil, false, 1}, "it has left, and the id is given": {nil, true, 1}} {
		var out bytes.Buffer
		b := &button{stopAllOptions: stopAllOptions{cluster: "beef", in: strings.NewReader("no\n")}, streams: streams{io.Discard, &out}, client: client, named: tt.named,
			cfg: &config.Config{Pools: tt.pools, Endpoint: endpoint.Config{State: t.TempDir()}}, providers: map[string]cloud.Provider{"lon": fake}}
		if err := b.press(t.Context()); err == nil || strings.Count(out.String(), want) != tt.told || strings.Count(out.String(), "serves files") != 1 {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
	for names, told := range map[string]bool{"lon-nfs": true, got[0].ID: true, "c[1-3],lon-nfs": true, "c1": false} {
		var out bytes.Buffer
		err := runEvict(t.Context(), streams{io.Discard, &out}, client, evictOptions{in: strings.NewReader("no\n")}, names)
		if err == nil || strings.HasPrefix(out.String(), "lon-nfs ("+got[0].ID+") serves files: they are lost with it.\n") != told {
			t.Errorf("evict %s: %v\n%s", names, err, out.String())
		}
	}
}

// TestBurstdIsQuieted: paused as a whole, or in the pools that are meant, and
// only by those who end its own cluster.
func TestBurstdIsQuieted(t *testing.T) {
	pool := func(name, provider string) config.Pool {
		return config.Pool{Power: power.Pool{Name: name, Provider: provider}}
	}
	pools := []config.Pool{pool("p", "east"), pool("q", "lon"), pool("r", "east")}
	for _, tt := range []struct {
		name           string
		o              stopAllOptions
		fail           error
		said           string
		paused, quiets bool
		stopped        []string
		left           bool // for a burstd that starts later
	}{
		{"all", stopAllOptions{cluster: "f00d"}, nil, "burstd is paused", true, true, nil, false},
		{"a pool", stopAllOptions{cluster: "f00d", pool: "q"}, nil, "has stopped pool q:", false, true, []string{"q"}, false},
		{"a provider", stopAllOptions{cluster: "f00d", provider: "east"}, nil, "has stopped pool p, r:", false, true, []string{"p", "r"}, false},
		{"a pool of another provider", stopAllOptions{cluster: "f00d", provider: "east", pool: "q"}, nil, "none of its pools", false, false, nil, false},
		{"another cluster", stopAllOptions{cluster: "beef"}, nil, "it serves the cluster f00d", false, false, nil, false},
		{"burstd fails", stopAllOptions{cluster: "f00d"}, errors.New("disk full"), "burstd was not told: burstd: disk full (500); it finds the word", false, false, nil, true},
		{"a pool, and burstd fails", stopAllOptions{cluster: "f00d", pool: "q"}, errors.New("disk full"), "it launches what jobs ask for", false, false, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "b.sock")
			b := new(apitest.Backend)
			b.SetStatus(api.Status{Cluster: "f00d"})
			b.SetPools([]api.PoolStatus{{Pool: "p"}, {Pool: "q"}, {Pool: "r"}})
			b.Fail(tt.fail)
			defer serveAt(t, b, socket)()
			client := api.NewClient(socket)
			defer client.Close()
			cfg := &config.Config{Pools: pools, Endpoint: endpoint.Config{State: t.TempDir()}}
			press := &button{stopAllOptions: tt.o, cfg: cfg, client: client}
			said, ok := press.quiet(t.Context())
			if w, left := stopall.Left(cfg.Endpoint.PauseFile()); left != tt.left || left && w.Why != "burst stop-all" {
				t.Errorf("left: %+v, %v", w, left)
			}
			if !strings.Contains(said, tt.said) || ok != tt.quiets {
				t.Errorf("%q, %v", said, ok)
			}
			if paused := len(b.PauseChanges()) == 1 && b.PauseChanges()[0].Pause; paused != tt.paused {
				t.Errorf("pauses: %+v", b.PauseChanges())
			}
			var stopped []string
			for _, c := range b.PoolChanges() {
				stopped = append(stopped, c.Pool)
			}
			if d := diff(tt.stopped, stopped); d != "" {
				t.Errorf("stopped pools (-want +got):\n%s", d)
			}
			b.SetNodes([]api.NodeStatus{{Node: "c1", Pool: "q", Journal: "launching"}, {Node: "c2", Pool: "p", Journal: "up"}})
			if busy, want := press.launching(t.Context()), tt.fail == nil && tt.o.provider == ""; busy != want {
				t.Errorf("launches are under way: %v, want %v", busy, want)
			}
		})
	}
}

func TestProgressLine(t *testing.T) {
	found := map[string][]cloud.Instance{"a": make([]cloud.Instance, 3), "b": make([]cloud.Instance, 1)}
	steps := []stopall.Progress{
		{Provider: "a", Found: 3},
		{Provider: "a", Found: 3},
		{Provider: "b", Found: 1, Gone: 1, Err: errors.New("too\x1boften")},
		{Provider: "c", Err: errors.New("no answer")}, // which is not 0 of 0
		{Provider: "a", Found: 4, Gone: 4},
	}
	for _, tt := range []struct {
		tty  bool
		want string
	}{
		{false, "provider a: 0 of 3 instances gone\nprovider b: too?often; it is tried again\nprovider b: 1 of 1 instances gone\nprovider c: no answer; it is tried again\nprovider a: 4 of 4 instances gone\n"},
		{true, "\r[" + strings.Repeat(".", 40) + "] 0 of 4 instances gone \r[" + strings.Repeat(".", 40) + "] 0 of 4 instances gone \n" +
			"provider b: too?often; it is tried again\n\r[" + strings.Repeat("#", 10) + strings.Repeat(".", 30) + "] 1 of 4 instances gone \nprovider c: no answer; it is tried again\n" +
			"\r[" + strings.Repeat("#", 40) + "] 5 of 5 instances gone \n"},
	} {
		var out bytes.Buffer
		p := &progressLine{w: &out, tty: tt.tty, found: found}
		for _, s := range steps {
			p.report(s)
		}
		p.end()
		if d := diff(tt.want, out.String()); d != "" {
			t.Errorf("terminal %v (-want +got):\n%s", tt.tty, d)
		}
	}
}

// TestWhatIsLeftIsTold, and is an error, also when somebody interrupts.
func TestWhatIsLeftIsTold(t *testing.T) {
	left := []cloud.Instance{{ID: "i-1", Pool: "p", State: cloud.Running, Node: "c1"}}
	for _, tt := range []struct {
		name        string
		results     []stopall.Result
		interrupted error
		out, err    string
	}{
		{"none", []stopall.Result{{Provider: "a", Ended: 3}, {Provider: "b", Ended: 2}}, nil, "5 instances are gone.", ""},
		{"one", []stopall.Result{{Provider: "a", Ended: 3, Left: left, Err: errors.New("is protected")}}, nil, "a         i-1   p     running  c1", "1 instances live"},
		{"not known", []stopall.Result{{Provider: "a", Err: errors.New("no route")}}, nil, "No instance is gone: no provider could be asked.", "of 1 providers it is not known"},
		{"interrupted", []stopall.Result{{Provider: "a", Left: left, Err: context.Canceled}}, context.Canceled, "i-1", "interrupted; 1 instances live"},
	} {
		var out bytes.Buffer
		err := (&button{streams: streams{&out, io.Discard}}).tell("", tt.results, tt.interrupted)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || !strings.Contains(out.String(), tt.out) {
			t.Errorf("%s: %v\n%s", tt.name, err, out.String())
		}
	}
}

// TestConfirm takes nothing for a yes but the words.
func TestConfirm(t *testing.T) {
	for answer, ok := range map[string]bool{"yes\n": true, " onprem \n": true, "yes": true, "y\n": false, "\n": false, "": false, "YES\n": false, "no\nyes\n": false} {
		if err := confirm(t.Context(), strings.NewReader(answer), io.Discard, "onprem", "", "yes"); (err == nil) != ok {
			t.Errorf("%q: %v", answer, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, w := io.Pipe()
	defer w.Close()
	if err := confirm(ctx, in, io.Discard, "yes"); err == nil || !strings.Contains(err.Error(), "nothing has been done") {
		t.Errorf("interrupted: %v", err)
	}
}

// TestStopAllTellsOfProvidersThatLeft burst.toml, by burstd's word: the command cannot look there, and ends nothing.
func TestStopAllTellsOfProvidersThatLeft(t *testing.T) {
	const line = "provider old is not in burst.toml: 2 instances, 0 launches neither watched nor ended; put [provider.old] back"
	for _, tt := range []struct {
		name   string
		o      stopAllOptions
		serves string // burstd's cluster
		told   bool
		fails  bool
	}{
		{"all", stopAllOptions{}, "beef", true, true},
		{"one provider", stopAllOptions{provider: "lon"}, "beef", true, false},
		{"a pool", stopAllOptions{pool: "p"}, "beef", true, false},
		{"burstd of another cluster", stopAllOptions{}, "f00d", false, false},
	} {
		socket := filepath.Join(t.TempDir(), "b.sock")
		backend := new(apitest.Backend)
		backend.SetStatus(api.Status{Cluster: tt.serves, Left: map[string]string{"old": line}})
		defer serveAt(t, backend, socket)()
		client := api.NewClient(socket)
		defer client.Close()
		var out, errs bytes.Buffer
		tt.o.cluster, tt.o.yes = "beef", true
		cfg := &config.Config{Pools: []config.Pool{{Power: power.Pool{Name: "p", Provider: "lon"}}}, Endpoint: endpoint.Config{State: t.TempDir()}}
		b := &button{stopAllOptions: tt.o, streams: streams{&out, &errs}, client: client, named: true, cfg: cfg,
			providers: map[string]cloud.Provider{"lon": cloudtest.NewFake(cloudtest.Options{})}}
		err := b.press(t.Context())
		if (err != nil) != tt.fails || tt.fails && !strings.Contains(err.Error(), "of 1 providers that are not in burst.toml nothing was ended") || strings.Contains(errs.String(), line) != tt.told {
			t.Errorf("%s: %v\n%s", tt.name, err, errs.String())
		}
	}
}
