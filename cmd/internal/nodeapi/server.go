package nodeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
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

// Limits bound what nodes can cost us; zero fields take the defaults.
type Limits struct {
	Rate    float64 // requests a second from one address; 1
	Burst   int     // requests at once from one address after a pause; 20
	Opening int     // credentials opened at once; 8
	Waiting int     // requests that wait for it; the others get 503 at once; 256
	Conns   int     // connections at once; more wait in the kernel; 2048
	PerAddr int     // of them from one address; more are closed; 16
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
	def(&l.Burst, 20)
	def(&l.Opening, 8)
	def(&l.Waiting, 256)
	def(&l.Conns, 2048)
	def(&l.PerAddr, 16)
	return l
}

// Server answers nodes.
type Server struct {
	backend Backend
	munge   credentials
	log     *slog.Logger
	limits  Limits
	root    int // the uid whose credentials are taken
	rates   *rates
	turns   *turns
	aloud   *rate.Limiter // of warnings: thousands of nodes may all be wrong in the same way

	mu     sync.Mutex
	counts map[string]uint64
}

// New makes a server; credentials are made and opened by m, a *munge.Munge.
func New(b Backend, m credentials, l Limits, log *slog.Logger) *Server {
	l = l.withDefaults()
	return &Server{backend: b, munge: m, log: log, limits: l, rates: newRates(l.Rate, l.Burst), turns: newTurns(l.Opening, l.Waiting),
		aloud: rate.NewLimiter(rate.Every(10*time.Second), 10), counts: map[string]uint64{}}
}

// Serve answers on ln until ctx ends, which also ends what is under way.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    2 * munge.MaxCredential,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	srv.SetKeepAlivesEnabled(false) // 10,000 nodes ask now and then: connections are not worth keeping
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(limitConns(ln, s.limits)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/node/whoami", s.serve(s.whoami))
	mux.HandleFunc("POST /v1/node/report", s.serve(s.report))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, reply{err: refuse(http.StatusNotFound, "nodes have nothing to ask here")})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr, err := source(r)
		switch {
		case err != nil:
			s.answer(w, r, reply{err: err})
		case !s.rates.allow(addr, time.Now()):
			s.answer(w, r, reply{err: later(http.StatusTooManyRequests, 10*time.Second, "this address asks too often")})
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// source is the address of the other end.
func source(r *http.Request) (netip.Addr, error) {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the source address: %w", err)
	}
	return a.Addr().Unmap().WithZone(""), nil
}

// question is an authentic request.
type question struct {
	addr     string
	Instance string `json:"instance"`
	Stage    string `json:"stage"`
	Text     string `json:"text"`
}

// reply is what a node gets: a signed body, or an error.
type reply struct {
	body       []byte
	credential string
	err        error
}

// serve does what both kinds of request have in common.
func (s *Server) serve(do func(context.Context, question) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.turns.full() { // before a byte of the body is read
			s.answer(w, r, reply{err: busy()})
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			s.answer(w, r, reply{err: unread(err)})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), workTimeout)
		defer cancel()
		s.answer(w, r, s.work(ctx, r, body, do))
	}
}

func unread(err error) error {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return refuse(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", big.Limit)
	}
	return refuse(http.StatusBadRequest, "the request did not come whole: %v", err)
}

func (s *Server) work(ctx context.Context, r *http.Request, body []byte, do func(context.Context, question) (any, error)) reply {
	if err := s.authentic(ctx, r, body); err != nil {
		return reply{err: err}
	}
	var q question
	if err := json.Unmarshal(body, &q); err != nil {
		return reply{err: refuse(http.StatusBadRequest, "the request is not the JSON it should be: %v", err)}
	}
	if !instanceIDs.MatchString(q.Instance) {
		return reply{err: refuse(http.StatusBadRequest, "%.40q is no instance's id", q.Instance)}
	}
	addr, err := source(r)
	if err != nil {
		return reply{err: err}
	}
	q.addr = addr.String()
	v, err := do(ctx, q)
	if err != nil {
		return reply{err: err}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return reply{err: err}
	}
	sum := sha256.Sum256(text)
	credential, err := s.munge.Encode(ctx, []byte(hex.EncodeToString(sum[:])))
	return reply{body: text, credential: credential, err: err}
}

// authentic checks that root of a host with our MUNGE key made this very request.
func (s *Server) authentic(ctx context.Context, r *http.Request, body []byte) error {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "MUNGE") || text == "" {
		return refuse(http.StatusUnauthorized, "the header Authorization: MUNGE <credential> is missing")
	}
	leave, err := s.turns.enter(ctx)
	if err != nil {
		return err
	}
	c, err := s.munge.Decode(ctx, text)
	leave() // what comes now may wait for the journal, together with others
	for _, why := range []error{munge.ErrReplayed, munge.ErrExpired, munge.ErrRewound, munge.ErrInvalid} {
		if errors.Is(err, why) {
			return refuse(http.StatusUnauthorized, "%v", why)
		}
	}
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	switch want := r.Method + " " + r.URL.Path + " " + hex.EncodeToString(sum[:]); {
	case string(c.Payload) != want:
		return refuse(http.StatusUnauthorized, "the credential is not this request's")
	case c.UID != s.root:
		return refuse(http.StatusForbidden, "the credential is uid %d's, not root's", c.UID)
	}
	return nil
}

func (s *Server) whoami(ctx context.Context, q question) (any, error) {
	id, err := s.backend.WhoAmI(ctx, q.Instance, q.addr)
	return struct {
		Instance string `json:"instance"`
		Identity
	}{q.Instance, id}, err
}

func (s *Server) report(ctx context.Context, q question) (any, error) {
	switch q.Stage {
	case Reachable, Setup, Ready, Failed:
	default:
		return nil, refuse(http.StatusBadRequest, "stage %.40q is none of %s, %s, %s, %s", q.Stage, Reachable, Setup, Ready, Failed)
	}
	return struct{}{}, s.backend.Report(ctx, Report{Instance: q.Instance, Addr: q.addr, Stage: q.Stage, Text: oneLine(q.Text)})
}

// answer writes a reply and counts it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a reply) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if a.err == nil {
		s.count("ok")
		h.Set("Burst-Credential", a.credential)
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
	_ = json.NewEncoder(w).Encode(map[string]string{"error": e.text})
}

// tell logs what an admin should know of, at most now and then.
func (s *Server) tell(r *http.Request, e *refusal, err error) {
	level := slog.LevelDebug
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable:
		if r.Context().Err() == nil && s.aloud.Allow() {
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
