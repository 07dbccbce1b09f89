package nodeapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
)

// TestCredentials has real munged decide, for each kind of request.
func TestCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged: slow end-to-end, run by make test")
	}
	socket := mungetest.Start(t)
	ours, foreign := munge.New(munge.Options{Socket: socket}), munge.New(munge.Options{Socket: mungetest.Start(t)})
	w := &world{T: t, site: &site{addr: "127.0.0.1"}, munge: &minted{}}
	w.Server = New(w.site, ours, Limits{Rate: 1e6, Burst: 1e6, Agents: 1e4}, slog.New(slog.DiscardHandler))
	w.root = os.Getuid() // whoever runs the test
	w.listen()
	encode := func(m *munge.Munge, text string) string {
		c, err := m.Encode(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	bodies := map[string]string{whoami: me, report: `{"instance":"i-1","stage":"ready"}`, notice: `{"instance":"i-1","kind":"rebalance"}`,
		beat: `{"instance":"i-1","slurmd":true}`, agent: `{"instance":"i-1","arch":"amd64"}`}
	for path, body := range bodies {
		right := payload("POST", path, body)
		taken := 200
		if path == agent {
			taken = 404 // there is none, which only who is let in is told
			w.files.dirs = nil
		}
		used := encode(ours, right)
		if got := w.ask(request{"POST", path, body, used}); got.status != taken {
			t.Errorf("%s: %+v", path, got)
		}
		altered := encode(ours, right)
		middle := len(altered) / 2
		flip := map[bool]string{true: "B", false: "A"}[altered[middle] == 'A']
		others := map[string]string{whoami: report, report: notice, notice: beat, beat: agent, agent: whoami}
		for _, tt := range []struct {
			name, body, credential string
			status                 int
			says                   string
		}{
			{"none", body, "", 401, "is missing"},
			{"replayed", body, used, 401, "used before"},
			{"altered", body, altered[:middle] + flip + altered[middle+1:], 401, "MUNGE key"},
			{"cut off", body, altered[:middle], 401, "MUNGE key"},
			{"under a foreign key", body, encode(foreign, right), 401, "MUNGE key"},
			{"of another path", body, encode(ours, payload("POST", others[path], body)), 401, "not this request's"},
			{"of another method", body, encode(ours, payload("GET", path, body)), 401, "not this request's"},
			{"of another body", strings.Replace(body, "i-1", "i-2", 1), encode(ours, right), 401, "not this request's"},
			{"with more to it", body + " ", encode(ours, right), 401, "not this request's"},
			{"somebody else's instance", strings.Replace(body, "i-1", "i-2", 1), encode(ours, payload("POST", path, strings.Replace(body, "i-1", "i-2", 1))), 403, "id and address"},
			{"of a user", body, asNobody(t, socket, right), 403, "not root's"},
		} {
			if tt.name == "somebody else's instance" && path == report {
				continue // the fake backend takes any; TestABootingNodeIsAnswered has the real one
			}
			if tt.name == "of a user" && tt.credential == "" {
				continue // only root can make one
			}
			if got := w.ask(request{"POST", path, tt.body, tt.credential}); got.status != tt.status || !strings.Contains(got.body, tt.says) || got.credential != "" {
				t.Errorf("%s, %s: %+v, want %d %q", path, tt.name, got, tt.status, tt.says)
			}
		}
	}
	if len(w.site.notices) != 1 || len(w.site.beats) != 1 || len(w.site.reports) != 1 {
		t.Errorf("taken: %d notices, %d beats, %d reports", len(w.site.notices), len(w.site.beats), len(w.site.reports))
	}
}

// asNobody is a credential of another uid; "" if we may not take one.
func asNobody(t *testing.T, socket, text string) string {
	t.Helper()
	if os.Getuid() != 0 {
		return ""
	}
	cmd := exec.CommandContext(t.Context(), "munge", "--socket="+socket)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("munge as nobody: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestAnotherAddress: the right words from a host that is not the instance.
func TestAnotherAddress(t *testing.T) {
	w := newWorld(t, Limits{})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	for path, body := range map[string]string{whoami: me, notice: `{"instance":"i-1","kind":"rebalance"}`, beat: me, agent: `{"instance":"i-1","arch":"amd64"}`} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+w.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "MUNGE "+w.munge.mint(0, payload("POST", path, body)))
		req.Header.Set("X-Forwarded-For", "127.0.0.1") // which anybody can write
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	if len(w.site.notices)+len(w.site.beats) > 0 {
		t.Errorf("taken: %+v, %+v", w.site.notices, w.site.beats)
	}
}

func TestNoNodeHasAnAdminsVerbs(t *testing.T) {
	w := newWorld(t, Limits{Rate: 1e6, Burst: 1e6})
	for _, path := range []string{"/v1/orders", "/v1/gate", "/v1/status", "/v1/nodes", "/v1/events", "/v1/pools", "/v1/usage", "/v1/evict", "/v1/pause",
		"/v1/stop-all", "/v1/reconcile", "/metrics", "/debug/pprof/", "/", "/v1/node/../orders", "/v1/node/notice/x"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			if got := w.ask(request{method, path, me, "own"}); got.status != 404 && got.status != 307 && got.status != 301 || got.credential != "" {
				t.Errorf("%s %s: %+v", method, path, got)
			}
		}
	}
}

// raw sends bytes as they are, and returns the status; 0: the connection was closed without one.
func (w *world) raw(parts ...string) int {
	w.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		w.Fatal(err)
	}
	for _, p := range parts {
		if _, err := io.WriteString(c, p); err != nil {
			break // cut off: it may have said why
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		w.Error(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestFloods(t *testing.T) {
	w := newWorld(t, Limits{Rate: 1e6, Burst: 1e6})
	head := "POST " + notice + " HTTP/1.1\r\nHost: b\r\n"
	var lines strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&lines, "X-%d: x\r\n", i)
	}
	for _, tt := range []struct {
		name  string
		parts []string
		want  []int
	}{
		{"a body that is too long, and says so", []string{head + "Content-Length: 99999999\r\n\r\n", strings.Repeat("x", 1<<20)}, []int{413, 0}},
		{"a body of no end", []string{head + "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n", 100)}, []int{413, 0}},
		{"a header of no end", []string{head + "Authorization: MUNGE ", strings.Repeat("x", 1<<20)}, []int{431, 0}},
		{"headers without number", []string{head, lines.String(), "\r\n"}, []int{431, 0}},
		{"a path of no end", []string{"POST /" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\nHost: b\r\n\r\n"}, []int{431, 0}},
		{"half a body, which is to be sent again", []string{head + "Content-Length: 9\r\n\r\n{}"}, []int{408}},
		{"two lengths", []string{head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"}, []int{400}},
		{"no HTTP", []string{"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"}, []int{400, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.raw(tt.parts...)
			for _, want := range tt.want {
				if got == want {
					return
				}
			}
			t.Errorf("status %d, want one of %d", got, tt.want)
		})
	}
	if got := w.ask(request{"POST", whoami, me, "own"}); got.status != 200 {
		t.Errorf("afterwards: %+v", got)
	}
}

// TestSlowBodies are cut off, all at the same time, and keep no other out.
func TestSlowBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the limit of a body: slow end-to-end, run by make test")
	}
	w := newWorld(t, Limits{Rate: 1e6, Burst: 1e6, PerAddr: 40})
	var wg sync.WaitGroup
	begun := time.Now()
	for range 30 {
		wg.Go(func() {
			c, err := net.Dial("tcp", w.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: b\r\nAuthorization: MUNGE x\r\nContent-Length: 1000\r\n\r\n{", notice); err != nil {
				t.Error(err)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = io.Copy(io.Discard, c) // to the end of the connection, however it ends
			}()
			for tick := time.NewTicker(time.Second); ; {
				select {
				case <-gone:
					tick.Stop()
					return
				case <-tick.C:
					_, _ = c.Write([]byte(" ")) // it may be cut off just now
				}
			}
		})
	}
	if got := w.ask(request{"POST", notice, `{"instance":"i-1","kind":"rebalance"}`, "own"}); got.status != 200 || time.Since(begun) > bodyTimeout/2 {
		t.Errorf("meanwhile, after %s: %+v", time.Since(begun), got)
	}
	wg.Wait()
	if took := time.Since(begun); took > 3*bodyTimeout {
		t.Errorf("cut off after %s", took)
	}
}
