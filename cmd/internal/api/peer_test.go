package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// When the test binary runs with this set it is a client of another uid.
const childEnv = "BURST_TEST_API_CHILD"

func TestMain(m *testing.M) {
	if socket := os.Getenv(childEnv); socket != "" {
		child(socket)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child prints one line per call: its name and the HTTP status it met.
func child(socket string) {
	c, ctx := api.NewClient(socket), context.Background()
	say := func(name string, err error) {
		var e *api.Error
		switch {
		case err == nil:
			fmt.Println(name, 200)
		case errors.As(err, &e):
			fmt.Println(name, e.Status)
		default:
			fmt.Println(name, err)
		}
	}
	say("order", c.AddOrder(ctx, api.NewOrder(api.Resume, "c1", "")))
	_, err := c.Gate(ctx, 1, "c1", 0)
	say("gate", err)
	st, err := c.Status(ctx)
	say("status", err)
	_, err = c.Nodes(ctx)
	say("nodes", err)
	events, err := c.Events(ctx, 0, 0)
	say("events", err)
	_, err = c.Usage(ctx, api.UsageQuery{By: "user", UID: -1})
	say("usage", err)
	_, err = c.Bills(ctx, time.Now())
	say("bills", err)
	_, err = c.Jobs(ctx, api.JobsQuery{Last: 1, UID: -1})
	say("jobs", err)
	_, err = c.Boots(ctx, "", 0, 1)
	say("boots", err)
	_, err = c.Pools(ctx)
	say("pools", err)
	say("change", c.ChangePool(ctx, api.PoolChange{Pool: "p"}))
	say("pause", c.ChangePause(ctx, api.PauseChange{Pause: true, Reason: "r"}))
	say("resume", c.ChangePause(ctx, api.PauseChange{}))
	_, err = c.Evict(ctx, api.EvictRequest{Names: "c1"})
	say("evict", err)
	_, err = c.Reconcile(ctx, api.ReconcileRequest{DryRun: true})
	say("reconcile", err)
	say("book", c.BookBuilder(ctx, api.Builder{}))
	for range 200 {
		if _, err = c.Status(ctx); err != nil {
			break
		}
	}
	say("flood", err)
	say("crowd", crowd(socket))
	fmt.Println("accounts", len(st.Accounts))
	for _, e := range events {
		fmt.Println(e.Kind, strings.Contains(e.Text, "12.50"))
	}
}

// crowd holds connections open until one is refused.
func crowd(socket string) error {
	for range 100 {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, "GET /nowhere HTTP/1.1\r\nHost: b\r\n\r\n"); err != nil {
			return &api.Error{Status: http.StatusTooManyRequests}
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return &api.Error{Status: http.StatusTooManyRequests}
		}
	}
	return nil
}

func TestUIDDecides(t *testing.T) {
	uid := os.Getuid()
	if uid == 0 {
		uid = 65534
	}
	for _, test := range []struct {
		name     string
		slurmUID int
		want     string
	}{
		{"another user", uid + 1, "order 403\ngate 403\nstatus 200\nnodes 200\nevents 200\nusage 200\nbills 403\njobs 200\nboots 200\npools 200\nchange 403\npause 403\nresume 403\nevict 403\nreconcile 403\nbook 403\nflood 429\ncrowd 429\n"},
		{"SlurmUser", uid, "order 200\ngate 200\nstatus 200\nnodes 200\nevents 200\nusage 200\nbills 200\njobs 200\nboots 200\npools 200\nchange 404\npause 200\nresume 200\nevict 404\nreconcile 200\nbook 200\nflood 200\ncrowd 200\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := api.Listen(filepath.Join(dir, "b.sock"))
			if err != nil {
				t.Fatal(err)
			}
			b := new(apitest.Backend)
			b.SetStatus(api.Status{Accounts: map[string]string{"lon": api.AccountMark("A")}})
			b.AddEvent(api.Event{Seq: 1, Kind: "budget-warn", Text: "user ann's budget of 12.50 USD a day: 90 % are spent"})
			b.AddEvent(api.Event{Seq: 2, Kind: "budget-leave", Text: "the cluster's budget of 12.50 USD a day: 3.00 USD more"})
			b.AddEvent(api.Event{Seq: 3, Kind: "launch", Text: "12.50"})
			srv := api.NewServer(b, api.Authz{SlurmUID: test.slurmUID}, slog.New(slog.DiscardHandler))
			go srv.Serve(l)
			defer srv.Close()
			sees, accounts := uid, 0
			if test.slurmUID == uid {
				sees, accounts = -1, 1
			}
			want := fmt.Sprintf("%saccounts %d\nbudget-warn %v\nbudget-leave %[3]v\nlaunch true\n", test.want, accounts, test.slurmUID == uid)
			if got := runAs(t, uid, dir); got != want {
				t.Errorf("uid %d was answered\n%swant\n%s", uid, got, want)
			}
			if q := b.UsageQuery(); q.UID != sees {
				t.Errorf("sees the usage of uid %d, want %d", q.UID, sees)
			}
			if q := b.JobsQuery(); q.UID != sees {
				t.Errorf("sees the jobs of uid %d, want %d", q.UID, sees)
			}
			if steered := len(b.PauseChanges())+len(b.EvictRequests())+len(b.ReconcileRequests()) > 0; steered != (test.slurmUID == uid) {
				t.Errorf("steered: %v", steered)
			}
			if taken := len(b.Orders()) == 1; taken != (test.slurmUID == uid) {
				t.Errorf("order taken: %v", taken)
			}
		})
	}
}

// runAs runs this binary as a client of dir's socket under uid.
func runAs(t *testing.T, uid int, dir string) string {
	t.Helper()
	// The test binary's own folder may be closed to the uid.
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "client")
	if err := os.WriteFile(exe, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Dir = "/"
	cmd.Env = []string{childEnv + "=" + filepath.Join(dir, "b.sock")}
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client: %v\n%s", err, errs.String())
	}
	return string(out)
}
