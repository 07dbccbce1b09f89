package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// How long a client has, and how long we may take.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	answerTimeout = 45 * time.Second
	workTimeout   = 20 * time.Second // for a request that has come whole
)

// Limits bound what nodes can cost us; zero fields take the defaults. Booting
// nodes, beats and notices are counted apart: many nodes may have one address,
// and no notice may be refused for the sake of the others.
type Limits struct {
	Rate    float64 // requests a second from one address; 1
	Burst   int     // requests at once from one address after a pause; 20
	Agents  float64 // beats, notices, and requests of burst-sruns, a second of each from one address; 50; twenty times as many at once
	Opening int     // credentials opened at once; 8
	Waiting int     // requests that wait for it; the others get 503 at once; 256
	Conns   int     // connections at once, without those of questions that wait for an answer, of which each session has one; more wait in the kernel; 2048
	PerAddr int     // of them from one address; more are closed; 64
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if l.Rate == 0 {
		l.Rate = 1
	}
	if l.Agents == 0 {
		l.Agents = 50
	}
	def(&l.Burst, 20)
	def(&l.Opening, 8)
	def(&l.Waiting, 256)
	def(&l.Conns, 2048)
	def(&l.PerAddr, 64)
	return l
}

// Server answers nodes.
type Server struct {
	backend Backend
	munge   credentials
	log     *slog.Logger
	limits  Limits
	root    int // the uid whose credentials are taken
	boots   lane
	beats   lane
	notices lane
	jobs    lane
	steps   Jobs // nil: jobs have nothing to ask here
	files   *programs
	aloud   *rate.Limiter   // of warnings: thousands of nodes may all be wrong in the same way
	life    context.Context // Serve's

	mu     sync.Mutex // also held while one of lates begins
	counts map[string]uint64
	ended  bool
	lates  sync.WaitGroup // answers whose connections are no longer the HTTP server's
}

// New makes a server; credentials are made and opened by m, a *munge.Munge.
func New(b Backend, m credentials, l Limits, log *slog.Logger) *Server {
	l = l.withDefaults()
	burst := int(20*l.Agents) + 1
	return &Server{backend: b, munge: m, log: log, limits: l, files: newPrograms(places()),
		boots:   lane{newRates(l.Rate, l.Burst), newTurns(l.Opening, l.Waiting)},
		beats:   lane{newRates(l.Agents, burst), newTurns(l.Opening, l.Waiting)},
		notices: lane{newRates(l.Agents, burst), newTurns(l.Opening, max(l.Waiting, l.Conns))}, // a storm waits its turn, no part of it is sent away
		jobs:    lane{newRates(l.Agents, burst), newTurns(l.Opening, max(l.Waiting, l.Conns))}, // after a restart of burstd all come at once
		aloud:   rate.NewLimiter(rate.Every(10*time.Second), 10), counts: map[string]uint64{}}
}

// Serve answers on ln until ctx ends, which also ends what is under way.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    2 * munge.MaxCredential,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	srv.SetKeepAlivesEnabled(false) // 10,000 nodes ask now and then: connections are not worth keeping
	s.life = ctx
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	defer func() { cancel(); s.endLates() }()
	if err := srv.Serve(limitConns(ln, s.limits)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/node/whoami", s.serve(&s.boots, s.whoami))
	mux.HandleFunc("POST /v1/node/report", s.serve(&s.boots, s.report))
	mux.HandleFunc("POST /v1/node/agent", s.serve(&s.boots, s.agent))
	mux.HandleFunc("POST /v1/node/beat", s.serve(&s.beats, s.beat))
	mux.HandleFunc("POST /v1/node/notice", s.serve(&s.notices, s.notice))
	if s.steps != nil {
		s.handleJobs(mux)
	}
	mux.HandleFunc("/", s.limited(&s.boots, func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, reply{err: refuse(http.StatusNotFound, "nodes have nothing to ask here")})
	}))
	return mux
}

// limited serves an address as often as its lane allows.
func (s *Server) limited(l *lane, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		addr, err := source(r)
		switch {
		case err != nil:
			s.answer(w, r, reply{err: err})
		case !l.rates.allow(addr, time.Now()):
			s.answer(w, r, reply{err: later(http.StatusTooManyRequests, 10*time.Second, "this address asks too often")})
		default:
			h(w, r)
		}
	}
}

// answer writes a reply and counts it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a reply) {
	h := w.Header()
	if a.credential != "" {
		h.Set("Burst-Credential", a.credential)
	}
	if a.file != nil {
		s.count("ok")
		s.send(w, r, a.file.packed)
		return
	}
	h.Set("Content-Type", "application/json")
	if a.err == nil {
		s.count("ok")
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
		_, _ = w.Write(a.body) // a client that has gone asks again
		return
	}
	e := toRefusal(a.err)
	s.count(e.outcome())
	s.tell(r, e, a.err)
	if e.retry > 0 {
		// A third more at random, so that those who came together do not return together.
		wait := e.retry + time.Duration(rand.Int64N(int64(e.retry)/3+1))
		h.Set("Retry-After", strconv.Itoa(int(wait.Seconds()+0.5)))
	}
	w.WriteHeader(e.status)
	if a.body != nil {
		_, _ = w.Write(a.body)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"error": e.text})
}

// tell logs what an admin should know of, at most now and then.
func (s *Server) tell(r *http.Request, e *refusal, err error) {
	level := slog.LevelDebug
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable:
		if e.as == "" && r.Context().Err() == nil && s.aloud.Allow() {
			level = slog.LevelWarn
		}
	}
	s.log.Log(r.Context(), level, "a node's request was not served", "addr", r.RemoteAddr, "path", fmt.Sprintf("%.80s", r.URL.Path), "status", e.status, "error", err)
}

func (s *Server) count(outcome string) {
	s.mu.Lock()
	s.counts[outcome]++
	s.mu.Unlock()
}
