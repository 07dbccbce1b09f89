package nodeapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// site is a backend of one instance, i-1, which is node c1.
type site struct {
	mu      sync.Mutex
	err     error
	addr    string          // of the instance
	more    map[string]bool // instances that are known beside it
	reports []Report
	notices []cloud.Notice
	beats   []Beat
	asked   int
	hold    chan struct{} // not nil: WhoAmI waits until it is closed
}

func (s *site) WhoAmI(ctx context.Context, instance, addr string) (Identity, error) {
	s.mu.Lock()
	s.asked++
	hold, err := s.hold, s.err
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return Identity{}, ctx.Err()
		}
	}
	switch {
	case err != nil:
		return Identity{}, err
	case instance != "i-1" || addr != s.addr:
		return Identity{}, ErrNotYours
	}
	return Identity{Node: "c1", Cluster: "f00d", Slurm: "22.05.8"}, nil
}

func (s *site) Report(_ context.Context, r Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, r)
	return s.err
}

func (s *site) Notice(ctx context.Context, addr string, n cloud.Notice) error {
	if err := s.Known(ctx, n.Instance, addr); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, n)
	return nil
}

func (s *site) Beat(ctx context.Context, b Beat) (time.Duration, error) {
	if err := s.Known(ctx, b.Instance, b.Addr); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats = append(s.beats, b)
	return 20 * time.Second, nil
}

func (s *site) Known(_ context.Context, instance, addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && (instance != "i-1" && !s.more[instance] || addr != s.addr) {
		return ErrNotYours
	}
	return s.err
}

func (s *site) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *site) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// minted is a munged in memory.
type minted struct {
	mu   sync.Mutex
	made map[string]munge.Credential
	used map[string]bool
	err  error         // of every call
	hold chan struct{} // not nil: Decode waits until it is closed
}

func (m *minted) mint(uid int, payload string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil {
		m.made, m.used = map[string]munge.Credential{}, map[string]bool{}
	}
	text := rand.Text()
	m.made[text] = munge.Credential{UID: uid, Payload: []byte(payload)}
	return text
}

func (m *minted) EncodeFor(_ context.Context, payload []byte, _ time.Duration) (string, error) {
	if m.err != nil {
		return "", m.err
	}
	return m.mint(999, string(payload)), nil
}

func (m *minted) Decode(_ context.Context, text string) (munge.Credential, error) {
	if m.hold != nil {
		<-m.hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.made[text]
	switch {
	case m.err != nil:
		return munge.Credential{}, m.err
	case !ok:
		return munge.Credential{}, munge.ErrInvalid
	case m.used[text]:
		return munge.Credential{}, munge.ErrReplayed
	}
	m.used[text] = true
	return c, nil
}

// world is a server that listens, and what it needs.
type world struct {
	*testing.T
	*Server
	site  *site
	munge *minted
	addr  string
	stop  func() // ends Serve, and waits for it
}

func newWorld(t *testing.T, l Limits) *world {
	t.Helper()
	w := &world{T: t, site: &site{addr: "127.0.0.1"}, munge: &minted{}}
	w.Server = New(w.site, w.munge, l, slog.New(slog.DiscardHandler))
	w.listen()
	return w
}

func (w *world) listen() {
	w.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	w.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, ln) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the server ended with %v", err)
		}
	})
	w.Cleanup(w.stop)
}

// request is one of a node's.
type request struct {
	method, path, body string
	credential         string // "": none; "own": made for it by root
}

type response struct {
	status     int
	body       string
	retry      string
	credential string
}

func payload(method, path, body string) string {
	sum := sha256.Sum256([]byte(body))
	return method + " " + path + " " + hex.EncodeToString(sum[:])
}

func (w *world) ask(r request) response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), r.method, "http://"+w.addr+r.path, strings.NewReader(r.body))
	if err != nil {
		w.Fatal(err)
	}
	if r.credential == "own" {
		r.credential = w.munge.mint(0, payload(r.method, r.path, r.body))
	}
	if r.credential != "" {
		req.Header.Set("Authorization", "MUNGE "+r.credential)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Error(err)
	}
	return response{resp.StatusCode, string(text), resp.Header.Get("Retry-After"), resp.Header.Get("Burst-Credential")}
}

const (
	whoami = "/v1/node/whoami"
	report = "/v1/node/report"
	notice = "/v1/node/notice"
	beat   = "/v1/node/beat"
	agent  = "/v1/node/agent"
	me     = `{"instance":"i-1"}`
)

var errDisk = errors.New("disk full")
