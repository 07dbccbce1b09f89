package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/spool"
)

// site is a controller's view: configuration, socket path and spool.
type site struct{ socket, spool, config string }

func newSite(t *testing.T) site {
	t.Helper()
	dir := t.TempDir()
	s := site{filepath.Join(dir, "b.sock"), filepath.Join(dir, "spool"), filepath.Join(dir, "burst.toml")}
	writeFile(t, s.config, fmt.Sprintf("[daemon]\nsocket = %q\nspool = %q\n", s.socket, s.spool))
	t.Setenv("BURST_CONFIG", s.config)
	t.Setenv("SLURM_RESUME_FILE", "")
	return s
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func serve(t *testing.T, b api.Backend, socket string) {
	t.Helper()
	stop, err := apitest.Serve(b, socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func (s site) spooled(t *testing.T) []api.Order {
	t.Helper()
	entries, err := spool.List(s.spool)
	if err != nil {
		t.Fatal(err)
	}
	var orders []api.Order
	for _, e := range entries {
		orders = append(orders, e.Order)
	}
	return orders
}

func fast(kind string) *program {
	return &program{kind: kind, timeout: 30 * time.Second, pauses: []time.Duration{time.Millisecond, time.Millisecond}}
}

func TestOrderGoesToTheSocket(t *testing.T) {
	for _, kind := range []string{api.Resume, api.Suspend, api.ResumeFail} {
		t.Run(kind, func(t *testing.T) {
			s, b, p := newSite(t), new(apitest.Backend), fast(kind)
			serve(t, b, s.socket)
			file := filepath.Join(t.TempDir(), "resume")
			writeFile(t, file, `{"jobs": broken`)
			t.Setenv("SLURM_RESUME_FILE", file)
			before := time.Now()
			if err := p.run(t.Context(), []string{"c[1-3],d1"}); err != nil {
				t.Fatal(err)
			}
			got := b.Orders()
			if len(got) != 1 || got[0].Kind != kind || got[0].Nodes != "c[1-3],d1" ||
				got[0].ResumeFile != `{"jobs": broken` || got[0].Made.Before(before.Add(-time.Second)) {
				t.Errorf("burstd has %+v", got)
			}
			if n := len(s.spooled(t)); n != 0 || len(p.warnings) != 0 {
				t.Errorf("%d spooled, warnings %q", n, p.warnings)
			}
		})
	}
}

// loses takes the order and then hangs or fails: its answer never arrives.
type loses struct {
	*apitest.Backend
	fail error
}

func (l loses) AddOrder(ctx context.Context, o api.Order) error {
	if err := l.Backend.AddOrder(ctx, o); err != nil {
		return err
	}
	if l.fail != nil {
		return l.fail
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestOrderGoesToTheSpool(t *testing.T) {
	for _, test := range []struct {
		name    string
		backend func(b *apitest.Backend) api.Backend // nil: burstd is away
		timeout time.Duration
		twice   bool // burstd has it too
		warning string
	}{
		{"burstd is away", nil, time.Minute, false, "does not answer"},
		{"burstd fails", func(b *apitest.Backend) api.Backend { b.Fail(errors.New("disk full")); return b },
			time.Minute, false, "disk full"},
		{"burstd fails after it took the order", func(b *apitest.Backend) api.Backend { return loses{b, errors.New("sync")} },
			time.Minute, true, "sync"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, b, p := newSite(t), new(apitest.Backend), fast(api.Suspend)
			if test.backend != nil {
				serve(t, test.backend(b), s.socket)
			}
			if err := p.run(t.Context(), []string{"c1"}); err != nil {
				t.Fatal(err)
			}
			got := s.spooled(t)
			if len(got) != 1 || got[0].Nodes != "c1" || got[0].Kind != api.Suspend {
				t.Fatalf("spooled: %+v", got)
			}
			if taken := b.Orders(); len(taken) == 1 != test.twice || test.twice && taken[0].ID != got[0].ID {
				t.Errorf("burstd has %+v, the spool %+v", taken, got)
			}
			if len(p.warnings) != 1 || !strings.Contains(p.warnings[0], test.warning) || !strings.Contains(p.warnings[0], s.spool) {
				t.Errorf("warnings %q, want %q", p.warnings, test.warning)
			}
			// burstd comes back, empties the spool: one order, however often it came.
			b.Fail(nil)
			for _, o := range got {
				if err := b.AddOrder(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(b.Orders()); n != 1 {
				t.Errorf("burstd has %d orders, want 1", n)
			}
		})
	}
}

func TestAnswerThatDoesNotCome(t *testing.T) {
	s, b, p := newSite(t), new(apitest.Backend), fast(api.Resume)
	l, err := api.Listen(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	hold, release := context.WithCancel(t.Context())
	srv := api.NewServer(hangs{loses{b, nil}, hold}, api.Authz{SlurmUID: os.Getuid()}, slog.New(slog.DiscardHandler))
	go srv.Serve(l)
	defer srv.Close()
	defer release()
	p.timeout = 100 * time.Millisecond
	if err := p.run(t.Context(), []string{"c1"}); err != nil {
		t.Fatal(err)
	}
	got, taken := s.spooled(t), b.Orders()
	if len(got) != 1 || len(taken) != 1 || got[0].ID != taken[0].ID {
		t.Errorf("spool %+v, burstd %+v; want one order under one id in both", got, taken)
	}
}

type hangs struct {
	loses
	until context.Context
}

func (h hangs) AddOrder(_ context.Context, o api.Order) error { return h.loses.AddOrder(h.until, o) }

func TestNeitherSocketNorSpool(t *testing.T) {
	s, p := newSite(t), fast(api.Resume)
	writeFile(t, s.spool, "in the way")
	err := p.run(t.Context(), []string{"c[1-9]"})
	if err == nil || !strings.Contains(err.Error(), "order for c[1-9] is lost") ||
		!strings.Contains(err.Error(), "does not answer") || !strings.Contains(err.Error(), s.spool) {
		t.Errorf("error %v", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
	if code := cli.Report(new(bytes.Buffer), err); code != cli.Failed {
		t.Errorf("exit code %d", code)
	}
}

func TestRetriesUntilBurstdIsBack(t *testing.T) {
	s, b, p := newSite(t), new(apitest.Backend), fast(api.Resume)
	writeFile(t, s.spool, "in the way")
	p.pauses = slices.Repeat([]time.Duration{20 * time.Millisecond}, 200)
	served := make(chan struct{})
	timer := time.AfterFunc(50*time.Millisecond, func() { serve(t, b, s.socket); close(served) })
	defer timer.Stop()
	if err := p.run(t.Context(), []string{"c1"}); err != nil {
		t.Fatal(err)
	}
	<-served
	if n := len(b.Orders()); n != 1 {
		t.Errorf("%d orders", n)
	}
}

func TestResumeFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge")
	writeFile(t, huge, "")
	if err := os.Truncate(huge, maxResumeFile+1); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"gone": filepath.Join(dir, "gone"), "a folder": dir, "huge": huge} {
		t.Run(name, func(t *testing.T) {
			s, b, p := newSite(t), new(apitest.Backend), fast(api.Resume)
			serve(t, b, s.socket)
			t.Setenv("SLURM_RESUME_FILE", path)
			if err := p.run(t.Context(), []string{"c1"}); err != nil {
				t.Fatal(err)
			}
			if got := b.Orders(); len(got) != 1 || got[0].ResumeFile != "" {
				t.Errorf("burstd has %d orders", len(got))
			}
			if len(p.warnings) != 1 || !strings.Contains(p.warnings[0], path) {
				t.Errorf("warnings %q", p.warnings)
			}
		})
	}
}

// A large file, escaped in JSON, still fits through the socket.
func TestResumeFileOfTheLargestSize(t *testing.T) {
	s, b, p := newSite(t), new(apitest.Backend), fast(api.Resume)
	serve(t, b, s.socket)
	file := filepath.Join(t.TempDir(), "resume")
	writeFile(t, file, strings.Repeat(`"`, maxResumeFile))
	t.Setenv("SLURM_RESUME_FILE", file)
	if err := p.run(t.Context(), []string{"c1"}); err != nil {
		t.Fatal(err)
	}
	if o := b.Orders(); len(o) != 1 || len(o[0].ResumeFile) != maxResumeFile {
		t.Errorf("%d orders, warnings %q", len(o), p.warnings)
	}
}

func TestBrokenConfigurationCostsNoOrder(t *testing.T) {
	s, p := newSite(t), fast(api.Resume)
	writeFile(t, s.config, "[daemon]\nsocket = 3")
	if got := p.endpoint(); got != endpoint.Default() {
		t.Errorf("endpoint %+v, want the default", got)
	}
	if len(p.warnings) != 1 || !strings.Contains(p.warnings[0], s.config) || !strings.Contains(p.warnings[0], endpoint.Default().Socket) {
		t.Errorf("warnings %q", p.warnings)
	}
}
