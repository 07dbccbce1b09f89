package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/google/go-cmp/cmp"
)

func serve(t *testing.T) (*apitest.Backend, string) {
	t.Helper()
	b, socket := new(apitest.Backend), filepath.Join(t.TempDir(), "b.sock")
	stop, err := apitest.Serve(b, socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return b, socket
}

func client(t *testing.T, socket string) *api.Client {
	c := api.NewClient(socket)
	t.Cleanup(c.Close)
	return c
}

// raw is an HTTP client for requests that api.Client never sends.
func raw(t *testing.T, socket string) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestEveryCallComesBackAsItWent(t *testing.T) {
	b, socket := serve(t)
	c, ctx := client(t, socket), t.Context()
	now := time.Now().UTC()

	order := api.NewOrder(api.Resume, "c[1-3]", `{"jobs":[]}`)
	if err := c.AddOrder(ctx, order); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]api.Order{order}, b.Orders()); d != "" {
		t.Errorf("orders (-sent +got):\n%s", d)
	}
	status := api.Status{Cluster: "x", Version: "v", Started: now, SlurmError: "down",
		Nodes: map[string]int{"up": 2}, Orders: 1, Instances: 2, Evictions: 3, Spooled: 4,
		Providers: map[string]string{"lon": "ok"}}
	b.SetStatus(status)
	if got, err := c.Status(ctx); err != nil || !cmp.Equal(status, got) {
		t.Errorf("Status: %v\n%s", err, cmp.Diff(status, got))
	}
	nodes := []api.NodeStatus{{Node: "c1", Pool: "p", Slurm: "IDLE+CLOUD", Journal: "up", Instance: "i-1",
		Offering: "m5.large/a/spot", Addr: "10.0.0.1", Since: now, Reason: "r"}}
	b.SetNodes(nodes)
	if got, err := c.Nodes(ctx); err != nil || !cmp.Equal(nodes, got) {
		t.Errorf("Nodes: %v\n%s", err, cmp.Diff(nodes, got))
	}
	b.SetNodes(append([]api.NodeStatus{{Node: "c0"}}, nodes...))
	if got, ok, err := c.Node(ctx, "c1"); err != nil || !ok || !cmp.Equal(nodes[0], got) {
		t.Errorf("Node: %v %v\n%s", ok, err, cmp.Diff(nodes[0], got))
	}
	if _, ok, err := c.Node(ctx, "c"); err != nil || ok {
		t.Errorf("a node that there is not: %v, %v", ok, err)
	}
	events := []api.Event{
		{Seq: 1, Time: now, Kind: "order", Text: "resume"},
		{Seq: 2, Time: now, Kind: "launch", Node: "c1", Instance: "i-1", Pool: "p", Job: 7, Text: "up", Data: json.RawMessage(`{"n":1}`)},
	}
	for _, e := range events {
		b.AddEvent(e)
	}
	for after, want := range map[int64][]api.Event{0: events, 1: events[1:], -1: events[1:], 2: nil} {
		if got, err := c.Events(ctx, after, 0); err != nil || !cmp.Equal(want, got) {
			t.Errorf("Events after %d: %v\n%s", after, err, cmp.Diff(want, got))
		}
	}
	b.SetGate(api.GateAnswer{Go: true, Why: "registered"})
	if got, err := c.Gate(ctx, 7, "c[1-3]", time.Minute); err != nil || !got.Go || got.Why != "registered" {
		t.Errorf("Gate = %+v, %v", got, err)
	}
}

func TestLongPollsWakeAndTimeOut(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	a, err := c.Gate(t.Context(), 1, "c1", 20*time.Millisecond)
	if err != nil || a.Go {
		t.Errorf("Gate that does not open = %+v, %v", a, err)
	}
	woken := make(chan error, 2)
	go func() {
		_, err := c.Gate(t.Context(), 1, "c1", time.Minute)
		woken <- err
	}()
	go func() {
		e, err := c.Events(t.Context(), 0, time.Minute)
		if err == nil && len(e) != 1 {
			err = fmt.Errorf("%d events", len(e))
		}
		woken <- err
	}()
	b.SetGate(api.GateAnswer{Go: true})
	b.AddEvent(api.Event{Seq: 1, Text: "x"})
	for range 2 {
		select {
		case err := <-woken:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a long poll did not wake")
		}
	}
}

func TestShutdownEndsLongPolls(t *testing.T) {
	b, socket := new(apitest.Backend), filepath.Join(t.TempDir(), "b.sock")
	stop, err := apitest.Serve(b, socket)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, socket)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Gate(t.Context(), 1, "c1", time.Minute)
		ended <- err
	}()
	waitFor(t, func() bool { return b.Asked() == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var e *api.Error
	if err := <-ended; !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
		t.Errorf("long poll at shutdown: %v, want 503", err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, api.ErrAway) {
		t.Errorf("after shutdown: %v, want ErrAway", err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited for 10 s")
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b, socket := serve(t)
	h := raw(t, socket)
	valid, err := json.Marshal(api.NewOrder(api.Resume, "c1", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		want                     string
	}{
		{"not JSON", "POST", "/v1/orders", "nodes=c1", 400, "not the JSON it should be"},
		{"cut off", "POST", "/v1/orders", string(valid[:len(valid)-5]), 400, "not the JSON it should be"},
		{"invalid order", "POST", "/v1/orders", `{"id":"x"}`, 400, "32 lower-case hex"},
		{"order by GET", "GET", "/v1/orders", "", 405, ""},
		{"no such path", "GET", "/v1/shutdown", "", 404, ""},
		{"gate without a job", "POST", "/v1/gate", `{}`, 400, "names no job"},
		{"gate body too big", "POST", "/v1/gate", `{"nodes":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "more than 1048576 bytes"},
		{"order too big", "POST", "/v1/orders", `{"nodes":"` + strings.Repeat("x", 64<<20) + `"}`, 413, "more than 67108864 bytes"},
		{"after is no number", "GET", "/v1/events?after=x", "", 400, "after is not a number"},
		{"wait is no duration", "GET", "/v1/events?wait=1", "", 400, "wait is not a duration"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequest(test.method, "http://b"+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := h.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var text bytes.Buffer
			if _, err := text.ReadFrom(resp.Body); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != test.status || !strings.Contains(text.String(), test.want) {
				t.Errorf("%d %s, want %d with %q", resp.StatusCode, text.String(), test.status, test.want)
			}
		})
	}
	if n := len(b.Orders()); n != 0 {
		t.Errorf("%d bad orders were taken", n)
	}
}

func TestLargeOrder(t *testing.T) {
	b, socket := serve(t)
	var nodes []string
	for i := range 10_000 {
		nodes = append(nodes, fmt.Sprintf("rack%d-node-x%d", i*7919, i))
	}
	o := api.NewOrder(api.Resume, strings.Join(nodes, ","), strings.Repeat(`{"job_id":1}`, 1<<20))
	if err := client(t, socket).AddOrder(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]api.Order{o}, b.Orders()); d != "" {
		t.Error("a 12 MB order changed on its way")
	}
}

func TestBackendErrorIsTold(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	b.Fail(errors.New("disk full"))
	err := c.AddOrder(t.Context(), api.NewOrder(api.Suspend, "c9", ""))
	var e *api.Error
	if !errors.As(err, &e) || e.Status != 500 || !strings.Contains(e.Message, "c9") || !strings.Contains(e.Message, "disk full") {
		t.Errorf("AddOrder: %v", err)
	}
}
