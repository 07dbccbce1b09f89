package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds"
	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// controller is burstd, under several names.
type controller struct {
	munge *minted
	// fail decides on a request before it is served: an answer, or an error of
	// the network; nil, nil: it is served.
	fail func(r *http.Request, body []byte) (*http.Response, error)
	// after decides likewise when it has been served.
	after func(*http.Response) (*http.Response, error)
	every string

	mu      sync.Mutex
	notices []cloud.Notice // in the order of their coming
	beats   []beat
	asked   int
}

func (c *controller) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.asked++
	fail, after := c.fail, c.after
	c.mu.Unlock()
	if fail != nil {
		if resp, err := fail(r, body); resp != nil || err != nil {
			return resp, err
		}
	}
	auth, _ := strings.CutPrefix(r.Header.Get("Authorization"), "MUNGE ")
	cred, err := c.munge.Decode(r.Context(), auth)
	if err != nil || string(cred.Payload) != "POST "+r.URL.Path+" "+sum(body) {
		return status(401, "", err), nil
	}
	text := answerTo(auth)
	c.mu.Lock()
	switch r.URL.Path {
	case "/v1/node/notice":
		var n cloud.Notice
		err = json.Unmarshal(body, &n)
		c.notices = append(c.notices, n)
	case "/v1/node/beat":
		var b beat
		err = json.Unmarshal(body, &b)
		c.beats = append(c.beats, b)
		text = c.every
	}
	c.mu.Unlock()
	if err != nil {
		return status(400, "", err), nil
	}
	resp := status(200, text, nil)
	if credential, err := c.munge.Encode(r.Context(), []byte(sum([]byte(text)))); err == nil {
		resp.Header.Set("Burst-Credential", credential)
	}
	if after != nil {
		return after(resp)
	}
	return resp, nil
}

// answerTo is what burstd says to a notice that came under this credential.
func answerTo(credential string) string {
	return fmt.Sprintf(`{"answers":%q}`, sum([]byte(credential)))
}

// status is an answer with a text, or an error's.
func status(code int, text string, err error) *http.Response {
	if err != nil {
		text = fmt.Sprintf(`{"error":%q}`, err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}
}

var errDown = errors.New("connection refused")

func down(*http.Request, []byte) (*http.Response, error) { return nil, errDown }

// only fails requests for a path, or with a text in their body.
func only(what string, fail func(*http.Request, []byte) (*http.Response, error)) func(*http.Request, []byte) (*http.Response, error) {
	return func(r *http.Request, body []byte) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, what) || bytes.Contains(body, []byte(what)) {
			return fail(r, body)
		}
		return nil, nil
	}
}

func (c *controller) set(change func(*controller)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// heard are the notices so far, and the number of all requests.
func (c *controller) heard() ([]cloud.Notice, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]cloud.Notice{}, c.notices...), c.asked
}

func (c *controller) beaten() []beat {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]beat{}, c.beats...)
}

// lines counts what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// world is an agent on an instance, with all that it talks to.
type world struct {
	*testing.T
	service *imdstest.Service
	burstd  *controller
	munge   *minted
	log     *lines
	config  Config

	mu     sync.Mutex
	states []string // what systemd was told
	stop   func()
}

// newWorld is not running yet. It may be in a synctest bubble.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, service: imdstest.New("i-1"), log: &lines{}, munge: &minted{open: map[string]munge.Credential{}}}
	w.burstd = &controller{munge: w.munge, every: `{"every":20}`}
	client, err := imds.New(imds.Options{Transport: imdstest.Direct{Service: w.service}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	proc(t, dir, map[string]string{"stat": bootStat, "100/stat": stat(100, 1, "slurmd", 100)})
	w.config = Config{
		URLs: []string{"http://one:9811"}, Spool: "/", Proc: dir, State: filepath.Join(t.TempDir(), "told.json"), Version: "test",
		IMDS: client, Munge: w.munge, Log: slog.New(slog.NewTextHandler(w.log, nil)), transport: w.burstd,
		Notify: func(state string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.states = append(w.states, state)
			return nil
		},
	}
	return w
}

// run starts the agent, for as long as the test runs or until the world is stopped.
func (w *world) run() {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := Run(ctx, w.config); err != nil {
			w.Errorf("Run: %v", err)
		}
	}()
	w.stop = func() {
		cancel()
		<-ended
	}
}

func (w *world) told(state string) (times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.states {
		if s == state {
			times++
		}
	}
	return times
}

// want fails unless burstd has had exactly these notices, in any order.
func (w *world) want(want ...cloud.Notice) {
	w.Helper()
	got, _ := w.burstd.heard()
	if len(got) != len(want) {
		w.Fatalf("burstd has %d notices, want %d: %+v", len(got), len(want), got)
	}
	for _, n := range want {
		n.Instance = "i-1"
		found := false
		for _, g := range got {
			found = found || g == n
		}
		if !found {
			w.Errorf("burstd has not got %+v, but %+v", n, got)
		}
	}
}

// proc writes files below a /proc, which has a process 1 too.
func proc(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if files["1/stat"] == "" {
		files["1/stat"] = stat(1, 0, "systemd", 1)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// bootStat is a /proc/stat of a host that booted when the clock of a synctest
// bubble begins, a minute before 2000.
const bootStat = "cpu  1 2 3\nbtime 946684740\nprocesses 7\n"

func stat(pid, parent int, name string, start int) string {
	return fmt.Sprintf("%d (%s) S %d 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 4 0 %d 1 2 3\n", pid, name, parent, start)
}

// secs are whole seconds from now, as EC2 writes deadlines.
func secs(n int) time.Time {
	return time.Now().Add(time.Duration(n) * time.Second).UTC().Truncate(time.Second)
}
