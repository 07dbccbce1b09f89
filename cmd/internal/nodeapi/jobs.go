package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/ft/session"
)

// Caller is whose process speaks, and from where.
type Caller struct {
	UID  int
	Addr netip.Addr
}

// Jobs knows the jobs and their sessions. Methods may be called concurrently. An
// error that wraps neither one of session's nor ErrNotRunning is ours, and the
// burst-srun asks again.
type Jobs interface {
	// Before is what burstd knows of a job before a step of it begins; it goes as
	// JSON, an object.
	Before(ctx context.Context, c Caller, job uint32, attempt int) (any, error)
	Open(ctx context.Context, c Caller, h session.Hello) (session.Word, error)
	// Poll waits for as long as the question says.
	Poll(ctx context.Context, c Caller, q session.Question) (session.Word, error)
	Answer(ctx context.Context, c Caller, g session.Given) error
	Close(ctx context.Context, c Caller, e session.End) (session.Closed, error)
}

// ErrNotRunning: Slurm does not say, so far, that this attempt of the job runs.
var ErrNotRunning = errors.New("this attempt of the job does not run, says Slurm")

const (
	maxJob  = 64 << 10 // bytes: of three paths and an error, each byte of which may take six in JSON
	maxKind = 300      // bytes of a refusal's text
)

// ServeJobs has j answer the burst-sruns of jobs. It is called before Serve.
func (s *Server) ServeJobs(j Jobs) { s.steps = j }

func (s *Server) handleJobs(mux *http.ServeMux) {
	j := s.steps
	mux.HandleFunc("POST "+jobword.Path, s.job(heard(func(ctx context.Context, c Caller, a jobword.Asking) (any, error) {
		if a.Job == 0 || a.Attempt < 0 {
			return nil, session.ErrInvalid
		}
		return j.Before(ctx, c, a.Job, a.Attempt)
	})))
	mux.HandleFunc("POST "+session.PathOpen, s.job(heard(func(ctx context.Context, c Caller, h session.Hello) (any, error) {
		return j.Open(ctx, c, h)
	})))
	mux.HandleFunc("POST "+session.PathPoll, s.waiting(heard(func(ctx context.Context, c Caller, q session.Question) (any, error) {
		return j.Poll(ctx, c, q)
	})))
	mux.HandleFunc("POST "+session.PathAnswer, s.job(heard(func(ctx context.Context, c Caller, g session.Given) (any, error) {
		return struct{}{}, j.Answer(ctx, c, g)
	})))
	mux.HandleFunc("POST "+session.PathClose, s.job(heard(func(ctx context.Context, c Caller, e session.End) (any, error) {
		return j.Close(ctx, c, e)
	})))
}

// saying is what answers an authentic request.
type saying func(ctx context.Context) (any, error)

// reading makes it of the body.
type reading func(c Caller, body []byte) saying

func heard[T any](do func(context.Context, Caller, T) (any, error)) reading {
	return func(c Caller, body []byte) saying {
		var v T
		err := json.Unmarshal(body, &v)
		return func(ctx context.Context) (any, error) {
			if err != nil {
				return nil, errors.Join(session.ErrInvalid, err)
			}
			return do(ctx, c, v)
		}
	}
}

// job answers a request of a burst-srun.
func (s *Server) job(read reading) http.HandlerFunc {
	return s.received(read, func(w http.ResponseWriter, r *http.Request, o owned) {
		s.answer(w, r, s.said(r.Context(), workTimeout, o))
	})
}

// waiting answers one that may wait for as long as a question does.
func (s *Server) waiting(read reading) http.HandlerFunc {
	return s.received(read, func(w http.ResponseWriter, r *http.Request, o owned) {
		park(r.Context())
		s.later(w, r, func(ctx context.Context) reply { return s.said(ctx, session.Poll+workTimeout/2, o) })
	})
}

// owned is an authentic request of a user's.
type owned struct {
	do      saying
	answers string // the SHA-256 of its credential in hex
}

// received does what the requests of burst-sruns have in common.
func (s *Server) received(read reading, do func(w http.ResponseWriter, r *http.Request, o owned)) http.HandlerFunc {
	return s.limited(&s.jobs, func(w http.ResponseWriter, r *http.Request) {
		if s.jobs.turns.full() { // before a byte of the body is read
			s.answer(w, r, reply{err: busy()})
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJob))
		if err != nil {
			s.answer(w, r, reply{err: unread(err)})
			return
		}
		end, control := time.Now().Add(answerTimeout), http.NewResponseController(w)
		_ = errors.Join(control.SetReadDeadline(end), control.SetWriteDeadline(end)) // else the burst-srun asks again
		c, err := s.caller(r, body)
		if err != nil {
			s.answer(w, r, reply{err: err})
			return
		}
		do(w, r, owned{read(c, body), digest([]byte(credentialOf(r)))})
	})
}

func (s *Server) caller(r *http.Request, body []byte) (Caller, error) {
	ctx, cancel := context.WithTimeout(r.Context(), workTimeout)
	defer cancel()
	uid, err := s.whose(ctx, &s.jobs, asked{Request: r, body: body})
	if err != nil {
		return Caller{}, err
	}
	addr, err := source(r)
	return Caller{uid, addr}, err
}

// said is the signed answer to a request; client ends when the client goes.
func (s *Server) said(client context.Context, limit time.Duration, o owned) reply {
	ctx, cancel := context.WithTimeout(client, limit)
	defer cancel()
	v, err := o.do(ctx)
	if client.Err() != nil {
		return reply{err: context.Cause(client)} // nobody is there to hear it
	}
	if err != nil {
		e := jobRefusal(err)
		v, err = map[string]string{"error": e.text, "kind": e.kind}, &told{e, err}
	}
	body, merr := answering(v, o.answers)
	if merr != nil {
		return reply{err: merr}
	}
	credential, merr := s.munge.EncodeFor(ctx, []byte(digest(body)), 0)
	if merr != nil {
		return reply{err: merr}
	}
	return reply{body: body, credential: credential, err: err}
}

// told is a refusal with its cause, for the log.
type told struct {
	*refusal
	cause error
}

func (t *told) Error() string { return t.cause.Error() }
func (t *told) Unwrap() error { return t.refusal }

// answering is v's JSON, which is an object's, with the credential that it answers.
func answering(v any, answers string) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	fields["answers"] = json.RawMessage(`"` + answers + `"`)
	return json.Marshal(fields)
}

// jobRefusal finds the answer for an error.
func jobRefusal(err error) *refusal {
	text := oneLine(err.Error(), maxKind)
	switch {
	case errors.Is(err, session.ErrUnknown): // it opens the session anew
		return &refusal{status: http.StatusNotFound, text: text, as: "not-yet", kind: "unknown"}
	case errors.Is(err, session.ErrReplaced):
		return &refusal{status: http.StatusGone, text: text, as: "refused", kind: "replaced"}
	case errors.Is(err, session.ErrNotYours):
		return &refusal{status: http.StatusForbidden, text: text, kind: "not-yours"}
	case errors.Is(err, session.ErrInvalid):
		return &refusal{status: http.StatusBadRequest, text: text, kind: "invalid"}
	case errors.Is(err, session.ErrFull):
		return &refusal{status: http.StatusServiceUnavailable, retry: 10 * time.Second, text: text, kind: "full"}
	case errors.Is(err, ErrNotRunning):
		return &refusal{status: http.StatusConflict, retry: 4 * time.Second, text: text, as: "not-yet"}
	}
	return toRefusal(err)
}
