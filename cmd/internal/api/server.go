package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

// How long the server waits for a client, and the backend for a disk.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	answerTimeout = 30 * time.Second // beyond a long poll's own wait
	orderTimeout  = 30 * time.Second
)

type server struct {
	backend  Backend
	peers    *peers
	log      *slog.Logger
	stopping context.Context // ends when Shutdown begins: long polls return
}

// NewServer makes the server for a Listener of Listen. Its Shutdown ends
// long polls at once and lets orders that are being written finish.
func NewServer(b Backend, a Authz, log *slog.Logger) *http.Server {
	stopping, stop := context.WithCancel(context.Background())
	s := &server{backend: b, peers: newPeers(a), log: log, stopping: stopping}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/orders", s.privileged(s.postOrder))
	mux.HandleFunc("POST /v1/gate", s.privileged(s.postGate))
	mux.HandleFunc("GET /v1/status", s.anybody(s.getStatus))
	mux.HandleFunc("GET /v1/nodes", s.anybody(s.getNodes))
	mux.HandleFunc("GET /v1/events", s.anybody(s.getEvents))
	mux.HandleFunc("GET /v1/boots", s.anybody(s.getBoots))
	mux.HandleFunc("GET /v1/pools", s.anybody(func(r *http.Request) (any, error) { return b.Pools(r.Context()) }))
	mux.HandleFunc("POST /v1/pools", s.privileged(s.postPool))
	mux.HandleFunc("GET /v1/usage", s.anybody(s.getUsage))
	mux.HandleFunc("GET /v1/bills", s.privileged(s.getBills))
	mux.HandleFunc("GET /v1/budget", s.anybody(s.getBudget))
	mux.HandleFunc("POST /v1/explain", s.anybody(s.postExplain))
	mux.HandleFunc("GET /v1/jobs", s.anybody(s.getJobs))
	s.control(mux)
	s.overflow(mux)
	h := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      MaxWait + answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext:       s.connect,
		ConnState:         s.connState,
	}
	h.RegisterOnShutdown(stop)
	return h
}

func (s *server) connect(ctx context.Context, c net.Conn) context.Context {
	ctx, err := s.peers.connect(ctx, c)
	if err != nil {
		s.log.Debug("connection refused", "err", err)
	}
	return ctx
}

func (s *server) connState(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		s.peers.disconnect(c)
	}
}

func (s *server) getStatus(r *http.Request) (any, error) {
	st, err := s.backend.Status(r.Context())
	if !s.peers.authz.privileged(r.Context().Value(uidKey{}).(int)) {
		st.Accounts = nil
	}
	return st, err
}

// getNodes returns all nodes, or that of the name alone.
func (s *server) getNodes(r *http.Request) (any, error) {
	all, err := s.backend.Nodes(r.Context())
	if name := r.URL.Query().Get("node"); name != "" && err == nil {
		one := []NodeStatus{}
		for _, n := range all {
			if n.Node == name {
				one = append(one, n)
			}
		}
		return one, nil
	}
	return all, err
}

type handler func(r *http.Request) (any, error)

// privileged serves SlurmUser and root only.
func (s *server) privileged(h handler) http.HandlerFunc {
	return s.anybody(func(r *http.Request) (any, error) {
		if uid := r.Context().Value(uidKey{}).(int); !s.peers.authz.privileged(uid) {
			s.log.Warn("request refused: neither SlurmUser nor root", "uid", uid, "path", r.URL.Path)
			return nil, &Error{http.StatusForbidden, fmt.Sprintf("uid %d is neither SlurmUser nor root", uid)}
		}
		return h(r)
	})
}

// anybody serves every uid of the host within its rate.
func (s *server) anybody(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		uid, ok := r.Context().Value(uidKey{}).(int)
		var answer any
		var err error
		switch {
		case !ok:
			err = &Error{http.StatusForbidden, "the caller's uid is not known"}
		case !s.peers.allow(uid):
			err = &Error{http.StatusTooManyRequests, fmt.Sprintf("uid %d asks too often", uid)}
		default:
			limit := int64(maxBody)
			if r.URL.Path == "/v1/orders" && s.peers.authz.privileged(uid) {
				limit = maxOrder
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			answer, err = h(r)
		}
		s.answer(w, r, answer, err)
	}
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		e := s.toError(err)
		if e.Status == http.StatusInternalServerError && r.Context().Err() == nil { // else the client has gone
			s.log.Error("request failed", "path", r.URL.Path, "err", err)
		}
		w.WriteHeader(e.Status)
		answer = map[string]string{"error": e.Message}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.log.Debug("answer not delivered", "path", r.URL.Path, "err", err)
	}
}

func (s *server) toError(err error) *Error {
	var e *Error
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &big):
		return &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("request has more than %d bytes", big.Limit)}
	case s.stopping.Err() != nil && errors.Is(err, context.Canceled):
		return &Error{http.StatusServiceUnavailable, "burstd is stopping"}
	}
	return &Error{http.StatusInternalServerError, err.Error()}
}

func (s *server) postOrder(r *http.Request) (any, error) {
	var o Order
	if err := decode(r.Body, &o); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, &Error{http.StatusBadRequest, err.Error()}
	}
	// A client that went away, or a stop, must not cut the write short: the
	// order is written and the client, unsure, brings it again under its ID.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), orderTimeout)
	defer cancel()
	if err := s.backend.AddOrder(ctx, o); err != nil {
		return nil, fmt.Errorf("%s order %s for %.200s: %w", o.Kind, o.ID, o.Nodes, err)
	}
	return struct{}{}, nil
}

func (s *server) postGate(r *http.Request) (any, error) {
	var g GateRequest
	if err := decode(r.Body, &g); err != nil {
		return nil, err
	}
	if g.Job == 0 {
		return nil, &Error{http.StatusBadRequest, "gate request names no job"}
	}
	ctx, cancel := s.pollContext(r)
	defer cancel()
	return s.backend.Gate(ctx, g.Job, g.Nodes, clampWait(g.Wait))
}

func (s *server) getEvents(r *http.Request) (any, error) {
	q := r.URL.Query()
	var after int64
	var wait time.Duration
	var err error
	if v := q.Get("after"); v != "" {
		if after, err = strconv.ParseInt(v, 10, 64); err != nil {
			return nil, &Error{http.StatusBadRequest, "after is not a number"}
		}
	}
	if v := q.Get("wait"); v != "" {
		if wait, err = time.ParseDuration(v); err != nil {
			return nil, &Error{http.StatusBadRequest, "wait is not a duration"}
		}
	}
	ctx, cancel := s.pollContext(r)
	defer cancel()
	events, err := s.backend.Events(ctx, after, clampWait(wait))
	if uid := r.Context().Value(uidKey{}).(int); !s.peers.authz.privileged(uid) {
		events = withoutAmounts(events)
	}
	return events, err
}

// pollContext ends with the request or when the server stops.
func (s *server) pollContext(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(s.stopping, cancel)
	return ctx, func() { unhook(); cancel() }
}

func clampWait(d time.Duration) time.Duration { return min(max(d, 0), MaxWait) }

func decode(r io.Reader, into any) error {
	err := json.NewDecoder(r).Decode(into)
	var big *http.MaxBytesError
	if err == nil || errors.As(err, &big) {
		return err
	}
	return &Error{http.StatusBadRequest, fmt.Sprintf("request is not the JSON it should be: %v", err)}
}
