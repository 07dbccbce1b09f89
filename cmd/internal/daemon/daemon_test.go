package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/spool"
	"github.com/burst-hpc/burst/slurm"
)

// text is the configuration of a burstd on this host; its Slurm is what a test puts into DIR/bin.
const text = `cluster = "test"
[slurm]
conf = "DIR/slurm.conf"
bin = "DIR/bin"
user = "USER"
[daemon]
socket = "DIR/run/s"
spool = "DIR/spool"
state = "DIR/state"
metrics = "METRICS"
[provider.here]
kind = "local"
dir = "DIR/local"
slurmd = "DIR/bin/slurmd"
[pool.p]
provider = "here"
nodes = "p[1-2]"
partition = "p"
instance_types = ["small"]
cpus = 1
real_memory = 100
ports = "17001-17002"
`

// site is what outlives a burstd.
type site struct {
	*testing.T
	dir     string
	metrics string
	config  *config.Config
	level   slog.Level // of the log
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "b") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &site{T: t, dir: dir, metrics: l.Addr().String()}
	for _, d := range []string{"state", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("slurm.conf", "", 0o644)
	me, err := user.Current() // who gives orders here
	if err != nil {
		t.Fatal(err)
	}
	s.write("burst.toml", strings.NewReplacer("DIR", dir, "USER", me.Username, "METRICS", s.metrics).Replace(text), 0o644)
	if s.config, err = config.Load(filepath.Join(dir, "burst.toml")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) write(name, text string, mode os.FileMode) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), mode); err != nil {
		s.Fatal(err)
	}
}

// log is a log that a test reads while it is written.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is a burstd in this process.
type running struct {
	*site
	*api.Client
	log  *log
	stop context.CancelFunc
	end  chan error // its result
}

// start runs a burstd and waits until it answers.
func (s *site) start() *running {
	s.Helper()
	r := &running{site: s, Client: api.NewClient(s.config.Endpoint.Socket), log: new(log), end: make(chan error, 1)}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(s.Context())
	go func() {
		r.end <- Run(ctx, Options{Config: s.config, Version: "1", Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: s.level}))})
	}()
	s.Cleanup(func() { r.finish(); r.Close() })
	r.until("burstd answers", func() bool { _, err := r.Status(s.Context()); return err == nil })
	return r
}

// finish stops the burstd, and is of no effect on one that has stopped.
func (r *running) finish() {
	r.Helper()
	if r.stop == nil {
		return
	}
	begun := time.Now()
	r.stop()
	r.stop = nil
	if err := <-r.end; err != nil {
		r.Errorf("burstd ended with %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		r.Errorf("it took %s to stop", took)
	}
	if _, err := os.Stat(r.config.Endpoint.Socket); !os.IsNotExist(err) {
		r.Errorf("the socket is left behind: %v", err)
	}
}

func (r *running) until(what string, cond func() bool) {
	r.Helper()
	for end := time.Now().Add(15 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-r.end:
			r.end <- err
			r.Fatalf("burstd has ended before %s: %v\n%s", what, err, r.log)
		default:
		}
		if time.Now().After(end) {
			r.Fatalf("not within 15 s: %s\n%s", what, r.log)
		}
	}
}

// scrape returns the metrics, "" while there are none.
func (r *running) scrape() string {
	resp, err := http.Get("http://" + r.metrics + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Error(err)
	}
	return string(body)
}

func TestWithoutSlurm(t *testing.T) {
	t.Parallel()
	r := newSite(t).start()
	r.until("Slurm has been asked", func() bool { s, err := r.Status(t.Context()); return err == nil && s.SlurmError != "" })
	s, err := r.Status(t.Context())
	if err != nil || s.SlurmOK || s.Cluster == "" || s.Version != "1" || s.Providers["here"] == "" {
		t.Errorf("status: %+v, %v", s, err)
	}
	if want := r.config.Providers[0].Place(); s.Places["here"] != want || want == "" {
		t.Errorf("its provider is %q, want %q", s.Places["here"], want)
	}
	nodes, err := r.Nodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[0].Node != "p1" || nodes[0].Pool != "p" {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	r.until("metrics", func() bool { return r.scrape() != "" })
	for _, want := range []string{"burst_slurm_up 0", "burst_orders_open 0", "burst_notices_active 0", `burst_provider_up{provider="here"} 1`} {
		if m := r.scrape(); !strings.Contains(m, want) {
			t.Errorf("the metrics lack %q:\n%s", want, m)
		}
	}
	first := s.Cluster
	r.finish()
	r = r.site.start() // on the same state
	if s, err := r.Status(t.Context()); err != nil || s.Cluster != first {
		t.Errorf("after a restart the cluster is %q, not %q: %v", s.Cluster, first, err)
	}
}

// TestHungSlurm: commands that do not return keep neither status nor stop waiting.
func TestHungSlurm(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"scontrol", "squeue"} {
		s.write("bin/"+name, "#!/bin/sh\ntouch "+s.dir+"/asked\nexec sleep 1000\n", 0o755)
	}
	r := s.start()
	r.until("Slurm has been asked", func() bool { _, err := os.Stat(filepath.Join(s.dir, "asked")); return err == nil })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if s, err := r.Status(ctx); err != nil || s.SlurmOK {
		t.Errorf("status: %+v, %v", s, err)
	}
	if err := r.AddOrder(ctx, api.NewOrder(api.Resume, "p1", "")); err != nil {
		t.Errorf("an order: %v", err)
	}
}

func TestSpool(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 100 { // more than fit into any queue before the engine runs
		if err := spool.Put(s.config.Endpoint.Spool, api.NewOrder(api.Suspend, fmt.Sprintf("p[1-%d]", i%2+1), "")); err != nil {
			t.Fatal(err)
		}
	}
	s.write("spool/20260801T000000.000000000Z-x.order", "{", 0o600)
	r := s.start()
	left := func() int {
		n, err := spool.Count(s.config.Endpoint.Spool)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(); n != 0 {
		t.Errorf("%d orders are in the spool when the socket is served", n)
	}
	if st, err := r.Status(t.Context()); err != nil || st.Orders == 0 {
		t.Errorf("status: %+v, %v", st, err)
	}
	if n := strings.Count(r.log.String(), "no orders"); n != 1 {
		t.Errorf("the broken file is told of %d times:\n%s", n, r.log)
	}
	if err := spool.Put(s.config.Endpoint.Spool, api.NewOrder(api.Suspend, "p1", "")); err != nil {
		t.Fatal(err)
	}
	r.until("an order that is spooled later is taken", func() bool { return left() == 0 })
}

func TestStartRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(s *site)
		want    []string
	}{
		{"another burstd runs", func(s *site) { s.start() }, []string{"another burstd has", "burstd.lock"}},
		{"no state folder", func(s *site) { s.remove("state") }, []string{"opening the state folder", "state/burstd.lock: no such file"}},
		{"the state folder is a file", func(s *site) { s.remove("state"); s.write("state", "", 0o600) }, []string{"opening the state folder", "not a directory"}},
		{"the journal is none", func(s *site) { s.write("state/burst.db", strings.Repeat("no database", 1000), 0o600) }, []string{"opening the journal", "burst.db", "not a database"}},
		{"the spool is a file", func(s *site) { s.write("spool", "", 0o600) }, []string{"reading the spool", "spool: not a directory"}},
		{"the socket's place is taken", func(s *site) { s.mkdir("run/s") }, []string{"run/s exists and is no socket"}},
		{"the socket's folder cannot be made", func(s *site) { s.write("run", "", 0o600) }, []string{"making the socket's folder", "not a directory"}},
		{"the provider's folder cannot be made", func(s *site) { s.write("local", "", 0o600) }, []string{"provider here", "not a directory"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			tt.prepare(s)
			err := Run(t.Context(), Options{Config: s.config, Version: "1", Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				t.Fatal("burstd ran, and stopped")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func (s *site) remove(name string) {
	s.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
		s.Fatal(err)
	}
}

func (s *site) mkdir(name string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
		s.Fatal(err)
	}
}

// TestMetricsAddressInUse does not keep burstd from its work.
func TestMetricsAddressInUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l, err := net.Listen("tcp", s.metrics)
	if err != nil {
		t.Fatal(err)
	}
	r := s.start()
	r.until("it is said", func() bool { return strings.Contains(r.log.String(), "address already in use") })
	if _, err := r.Status(t.Context()); err != nil {
		t.Error(err)
	}
	l.Close()
	r.until("metrics, now that it is free", func() bool { return r.scrape() != "" })
}

// errRunner is a Slurm that answers nothing.
type errRunner struct{}

func (errRunner) Run(ctx context.Context, _ string, _ ...string) ([]byte, []byte, error) {
	return nil, nil, errors.Join(ctx.Err(), errors.New("no answer"))
}

// TestAReadingGivenUpSaysNothingOfSlurm: its only reader, a gate say, has gone.
func TestAReadingGivenUpSaysNothingOfSlurm(t *testing.T) {
	d := &Daemon{client: slurm.New(errRunner{})}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.read(gone); err == nil || d.slurmError() != nil {
		t.Errorf("read: %v; status: %v", err, d.slurmError())
	}
	if _, err := d.read(t.Context()); err == nil || d.slurmError() == nil {
		t.Errorf("read: %v; status: %v", err, d.slurmError())
	}
}
