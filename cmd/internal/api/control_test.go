package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// refused says whether err is burstd's, with the status and the words; with
// status 0 it must be nil.
func refused(err error, status int, want string) bool {
	var e *api.Error
	if status == 0 {
		return err == nil
	}
	return errors.As(err, &e) && e.Status == status && strings.Contains(e.Message, want)
}

func TestPause(t *testing.T) {
	t.Parallel()
	b, socket := serve(t)
	c := client(t, socket)
	for _, tt := range []struct {
		name   string
		change api.PauseChange
		status int
		want   string
	}{
		{"pause", api.PauseChange{Pause: true, Reason: " storm ", By: "me"}, 0, ""},
		{"resume", api.PauseChange{}, 0, ""},
		{"no reason", api.PauseChange{Pause: true, Reason: " "}, 400, "without a reason"},
		{"a long reason", api.PauseChange{Pause: true, Reason: strings.Repeat("x", 501)}, 400, "more than 500 bytes"},
		{"a body that is too large", api.PauseChange{Pause: true, Reason: strings.Repeat("x", 1<<20)}, 413, "more than 1048576 bytes"},
	} {
		if err := c.ChangePause(t.Context(), tt.change); !refused(err, tt.status, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	by := fmt.Sprint("uid ", os.Getuid())
	want := []api.PauseChange{{Pause: true, Reason: "storm", By: by}, {By: by}}
	if diff := cmp.Diff(want, b.PauseChanges()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestAPauseThatIsNotNamedIsNoResume: what is misspelt must not launch.
func TestAPauseThatIsNotNamedIsNoResume(t *testing.T) {
	b, socket := serve(t)
	h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer h.CloseIdleConnections()
	for body, want := range map[string]int{"{}": 400, "null": 400, `{"paused":true,"reason":"w"}`: 400, `{"pause":null}`: 400, `{"pause":"yes"}`: 400, "": 400, `{"pause":false}`: 200} {
		resp, err := h.Post("http://burstd/v1/pause", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: status %d, want %d", body, resp.StatusCode, want)
		}
	}
	if n := len(b.PauseChanges()); n != 1 {
		t.Errorf("%d changes", n)
	}
}

func TestEvict(t *testing.T) {
	t.Parallel()
	b, socket := serve(t)
	c := client(t, socket)
	if _, err := c.Evict(t.Context(), api.EvictRequest{Names: "c9"}); !refused(err, 404, "no instance serves c9") {
		t.Errorf("no such node: %v", err)
	}
	evicted := []api.Evicted{{Node: "c1", Instance: "i-1", Pool: "p", Provider: "east", Deadline: time.Now().UTC(), Way: "burstd"}}
	b.SetEvicted(evicted)
	for _, tt := range []struct {
		name    string
		request api.EvictRequest
		status  int
		want    string
	}{
		{"with a notice", api.EvictRequest{Names: "c[1-2]", Lead: 2 * time.Minute, By: "me"}, 0, ""},
		{"without", api.EvictRequest{Names: "i-1", NoNotice: true}, 0, ""},
		{"no name", api.EvictRequest{Names: "\t"}, 400, "names no node"},
		{"many names", api.EvictRequest{Names: strings.Repeat("c1,", 30000)}, 400, "more than 65536 bytes"},
		{"a lead time below 0", api.EvictRequest{Names: "c1", Lead: -1}, 400, "not from 0s to 24h"},
		{"a lead time of days", api.EvictRequest{Names: "c1", Lead: 25 * time.Hour}, 400, "not from 0s to 24h"},
		{"a body that is too large", api.EvictRequest{Names: strings.Repeat("x", 1<<20)}, 413, "more than 1048576 bytes"},
	} {
		got, err := c.Evict(t.Context(), tt.request)
		if !refused(err, tt.status, tt.want) || tt.status == 0 && !cmp.Equal(evicted, got) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	by := fmt.Sprint("uid ", os.Getuid())
	want := []api.EvictRequest{{Names: "c9", By: by}, {Names: "c[1-2]", Lead: 2 * time.Minute, By: by}, {Names: "i-1", NoNotice: true, By: by}}
	if diff := cmp.Diff(want, b.EvictRequests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestReconcile(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	if got, err := c.Reconcile(t.Context(), api.ReconcileRequest{}); err != nil || got == nil || len(got) > 0 {
		t.Errorf("nothing to do: %v, %v: want [], not null", got, err)
	}
	planned := []api.Planned{{Action: "terminate", Instance: "i-1", Why: "orphan", Settling: true}}
	b.SetPlanned(planned)
	got, err := c.Reconcile(t.Context(), api.ReconcileRequest{DryRun: true})
	if diff := cmp.Diff(planned, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]api.ReconcileRequest{{}, {DryRun: true}}, b.ReconcileRequests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestBookBuilder(t *testing.T) {
	b, socket := serve(t)
	c := client(t, socket)
	want := api.Builder{Instance: "i-1", Token: "image-x", Provider: "east", Pool: "p", Type: "small", Zone: "a", Market: "on-demand",
		Launched: time.Now().UTC().Add(-time.Hour), Ended: time.Now().UTC()}
	if err := c.BookBuilder(t.Context(), want); err != nil || !cmp.Equal([]api.Builder{want}, b.Builders()) {
		t.Errorf("%v: %+v", err, b.Builders())
	}
}
