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

// Limits bound what nodes can cost us; zero fields take the defaults. Booting
// nodes, beats and notices are counted apart: many nodes may have one address,
// and no notice may be refused for the sake of the others.
type Limits struct {
	Rate    float64 // requests a second from one address; 1
	Burst   int     // requests at once from one address after a pause; 20
	Agents  float64 // beats, and notices, a second from one address; 50; twenty times as many at once
	Opening int     // credentials opened at once; 8
	Waiting int     // requests that wait for it; the others get 503 at once; 256
	Conns   int     // connections at once; more wait in the kernel; 2048
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
	files   *programs
	aloud   *rate.Limiter // of warnings: thousands of nodes may all be wrong in the same way

	mu     sync.Mutex
	counts map[string]uint64
}

// New makes a server; credentials are made and opened by m, a *munge.Munge.
func New(b Backend, m credentials, l Limits, log *slog.Logger) *Server {
	l = l.withDefaults()
	burst := int(20*l.Agents) + 1
	return &Server{backend: b, munge: m, log: log, limits: l, files: newPrograms(places()),
		boots:   lane{newRates(l.Rate, l.Burst), newTurns(l.Opening, l.Waiting)},
		beats:   lane{newRates(l.Agents, burst), newTurns(l.Opening, l.Waiting)},
		notices: lane{newRates(l.Agents, burst), newTurns(l.Opening, l.Waiting)},
		aloud:   rate.NewLimiter(rate.Every(10*time.Second), 10), counts: map[string]uint64{}}
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
	mux.HandleFunc("POST /v1/node/whoami", s.serve(&s.boots, s.whoami))
	mux.HandleFunc("POST /v1/node/report", s.serve(&s.boots, s.report))
	mux.HandleFunc("POST /v1/node/agent", s.serve(&s.boots, s.agent))
	mux.HandleFunc("POST /v1/node/beat", s.serve(&s.beats, s.beat))
	mux.HandleFunc("POST /v1/node/notice", s.serve(&s.notices, s.notice))
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

// source is the address of the other end.
func source(r *http.Request) (netip.Addr, error) {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the source address: %w", err)
	}
	return a.Addr().Unmap().WithZone(""), nil
}

// question is an authentic request; which fields it has depends on its path.
type question struct {
	addr     string
	Instance string `json:"instance"`

	Stage string `json:"stage"`
	Text  string `json:"text"`

	Kind      string    `json:"kind"`
	Action    string    `json:"action"`
	Deadline  time.Time `json:"deadline"`
	Event     string    `json:"event"`
	Cancelled bool      `json:"cancelled"`

	Version string      `json:"version"`
	Started []time.Time `json:"slurmd_started"`
	Slurmd  *bool       `json:"slurmd"`
	Spool   *float64    `json:"spool_used"`

	Arch string `json:"arch"`
}

// reply is what a node gets: a body, signed or not, or an error.
type reply struct {
	body       []byte
	credential string
	err        error
	file       *packed // in place of a small body
}

// unsigned is an answer that carries no credential.
type unsigned struct{ any }

// serve does what all kinds of request have in common.
func (s *Server) serve(l *lane, do func(context.Context, question) (any, error)) http.HandlerFunc {
	return s.limited(l, func(w http.ResponseWriter, r *http.Request) {
		if l.turns.full() { // before a byte of the body is read
			s.answer(w, r, reply{err: busy()})
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			s.answer(w, r, reply{err: unread(err)})
			return
		}
		// The time to send the request in must not cut off the work for it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerTimeout)) // else the node asks again
		ctx, cancel := context.WithTimeout(r.Context(), workTimeout)
		defer cancel()
		a := s.work(ctx, l, asked{r, body, do})
		if a.file != nil {
			defer s.files.leave()
		}
		s.answer(w, r, a)
	})
}

// asked is a request that has come whole, and what answers it.
type asked struct {
	*http.Request
	body []byte
	do   func(context.Context, question) (any, error)
}

func unread(err error) error {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return refuse(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", big.Limit)
	}
	return refuse(http.StatusBadRequest, "the request did not come whole: %v", err)
}

func (s *Server) work(ctx context.Context, l *lane, r asked) reply {
	if err := s.authentic(ctx, l, r); err != nil {
		return reply{err: err}
	}
	var q question
	if err := json.Unmarshal(r.body, &q); err != nil {
		return reply{err: refuse(http.StatusBadRequest, "the request is not the JSON it should be: %v", err)}
	}
	if !instanceIDs.MatchString(q.Instance) {
		return reply{err: refuse(http.StatusBadRequest, "%.40q is no instance's id", q.Instance)}
	}
	addr, err := source(r.Request)
	if err != nil {
		return reply{err: err}
	}
	q.addr = addr.String()
	v, err := r.do(ctx, q)
	if err != nil {
		return reply{err: err}
	}
	if f, ok := v.(*packed); ok {
		credential, err := s.munge.EncodeFor(ctx, []byte(f.sum), sendTimeout)
		if err != nil {
			s.files.leave()
			return reply{err: err}
		}
		return reply{credential: credential, file: f}
	}
	u, bare := v.(unsigned)
	if bare {
		v = u.any
	}
	text, err := json.Marshal(v)
	if err != nil || bare {
		return reply{body: text, err: err}
	}
	sum := sha256.Sum256(text)
	credential, err := s.munge.EncodeFor(ctx, []byte(hex.EncodeToString(sum[:])), 0)
	return reply{body: text, credential: credential, err: err}
}

// authentic checks that root of a host with our MUNGE key made this very request.
func (s *Server) authentic(ctx context.Context, l *lane, r asked) error {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "MUNGE") || text == "" {
		return refuse(http.StatusUnauthorized, "the header Authorization: MUNGE <credential> is missing")
	}
	leave, err := l.turns.enter(ctx)
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
	sum := sha256.Sum256(r.body)
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
	return struct{}{}, s.backend.Report(ctx, Report{Instance: q.Instance, Addr: q.addr, Stage: q.Stage, Text: oneLine(q.Text, maxText)})
}

// answer writes a reply and counts it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a reply) {
	h := w.Header()
	if a.credential != "" {
		h.Set("Burst-Credential", a.credential)
	}
	if a.file != nil {
		s.count("ok")
		s.send(w, r, a.file)
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
