package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// machine is what the caller's clouds say of an instance that lives.
type machine struct{ id, addr string }

// machines plays those behind the instances of several clouds, as ec2 does for one.
type machines struct {
	t      *testing.T
	s      *site
	listen string
	list   func(context.Context) ([]machine, error)

	mu   sync.Mutex
	up   map[string]*exec.Cmd
	seen map[string]seen // by instance
}

// seen is what the clouds' lists have shown of an instance.
type seen struct {
	lived time.Time // at which it was there, the last
	gone  time.Time // after which it was not; zero: it is there
}

// bothClouds lists what lives in moto and at the fake of Vultr.
func bothClouds(ctx context.Context, m *mototest.Moto, v *vultrtest.Cloud) ([]machine, error) {
	var all []machine
	ec2, err := m.List(ctx)
	for _, i := range ec2 {
		if i.State == "running" {
			all = append(all, machine{i.ID, i.Addr})
		}
	}
	for _, i := range v.Machines() {
		all = append(all, machine{i.ID, i.Addr})
	}
	return all, err
}

// live counts the machines that are up.
func (e *machines) live() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.up)
}

// run boots and ends machines until the test ends.
func (e *machines) run() {
	e.up, e.seen = map[string]*exec.Cmd{}, map[string]seen{}
	asks := &ec2{t: e.t, s: e.s, listen: e.listen}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			e.round(ctx, asks)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		for id := range e.up {
			e.end(id)
		}
	})
	e.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func (e *machines) round(ctx context.Context, asks *ec2) {
	asked := time.Now()
	all, err := e.list(ctx)
	answered := time.Now()
	if err != nil {
		if ctx.Err() == nil {
			e.t.Errorf("listing the clouds' instances: %v", err)
		}
		return
	}
	lives := map[string]bool{}
	for _, i := range all {
		lives[i.id] = true
	}
	e.look(lives, asked, answered)
	for _, i := range all {
		if e.up[i.id] != nil {
			continue
		}
		if node := asks.whoami(ctx, mototest.Instance{ID: i.id, Addr: i.addr}); node != "" {
			e.boot(i, node)
		}
	}
	for id := range e.up {
		if !lives[id] {
			e.end(id)
		}
	}
}

// look notes what a list shows that was asked for and answered at these times.
func (e *machines) look(lives map[string]bool, asked, answered time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range lives {
		e.seen[id] = seen{lived: asked}
	}
	for id, s := range e.seen {
		if s.gone.IsZero() && !lives[id] {
			e.seen[id] = seen{s.lived, answered}
		}
	}
}

func (e *machines) boot(i machine, node string) {
	cmd, err := slurmd.Command(slurmd.Options{Node: node, Conf: e.s.Cluster.Conf, Dir: filepath.Join(e.s.Work, i.id), Boot: true})
	time.Sleep(slurmd.BootDelay(time.Now()))
	if err == nil {
		err = slurmd.Start(cmd)
	}
	if err != nil {
		e.t.Errorf("booting %s as %s: %v", i.id, node, err)
		return
	}
	e.t.Logf("%s (%s) boots as %s", i.id, i.addr, node)
	e.mu.Lock()
	e.up[i.id] = cmd
	e.mu.Unlock()
}

func (e *machines) end(id string) {
	cmd := e.up[id]
	if err := slurmd.KillTree(cmd.Process.Pid); err != nil {
		e.t.Errorf("ending %s: %v", id, err)
	}
	_ = cmd.Wait() // killed
	e.mu.Lock()
	delete(e.up, id)
	e.mu.Unlock()
}

// usage is what the ledger has for each provider.
func (e *machines) usage() []api.Usage {
	e.t.Helper()
	cfg, err := endpoint.Load(e.s.Config)
	if err != nil {
		e.t.Fatal(err)
	}
	client := api.NewClient(cfg.Socket)
	defer client.Close()
	all, err := client.Usage(e.t.Context(), api.UsageQuery{By: "provider"})
	if err != nil {
		e.t.Fatal(err)
	}
	return all
}

// declareFeatures gives the cloud nodes features, as burst genconf would.
func (s *site) declareFeatures(features string) {
	s.t.Helper()
	text, err := os.ReadFile(s.Cluster.Conf)
	if err != nil {
		s.t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^(NodeName=c\S* .*)$`).ReplaceAllString(string(text), "$1 Feature="+features)
	if err := os.WriteFile(s.Cluster.Conf, []byte(changed), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Cluster.RestartController(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// capacityGate stands before an EC2 and, while gone is set, has none of its capacity. On-demand prices may not be read there,
// of which moto has none: a fault of its would be waited for.
func capacityGate(t *testing.T, endpoint string) (at string, gone *atomic.Bool) {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	gone = new(atomic.Bool)
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		launches := strings.Contains(string(body), "Action=RunInstances") && !strings.Contains(string(body), "DryRun=true")
		if gone.Load() && launches {
			w.Header().Set("Content-Type", "text/xml")
			w.WriteHeader(http.StatusInternalServerError) // as EC2 does
			_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>InsufficientInstanceCapacity</Code>`+
				`<Message>We currently do not have sufficient capacity in the zone you requested.</Message></Error></Errors><RequestID>r-1</RequestID></Response>`)
			return
		}
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetProducts") {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"AccessDeniedException","Message":"not authorized to perform: pricing:GetProducts"}`)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, gone
}
