package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

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
	Close(ctx context.Context, c Caller, e session.End) error
}

// ErrNotRunning: Slurm does not say, so far, that this attempt of the job runs.
var ErrNotRunning = errors.New("Slurm does not say that this attempt of the job runs")

const (
	pathBefore = "/v1/job/before"
	maxJob     = 64 << 10 // bytes: of three paths and an error, each byte of which may take six in JSON
	maxKind    = 300      // bytes of a refusal's text
)

// ServeJobs has j answer the burst-sruns of jobs. It is called before Serve.
func (s *Server) ServeJobs(j Jobs) { s.steps = j }

func (s *Server) handleJobs(mux *http.ServeMux) {
	j := s.steps
	mux.HandleFunc("POST "+pathBefore, s.job(heard(func(ctx context.Context, c Caller, a attempt) (any, error) {
		if a.Job == 0 || a.Attempt < 0 {
			return nil, session.ErrInvalid
		}
		return j.Before(ctx, c, a.Job, a.Attempt)
	})))
	mux.HandleFunc("POST "+session.PathOpen, s.job(heard(func(ctx context.Context, c Caller, h session.Hello) (any, error) {
		return j.Open(ctx, c, h)
	})))
	mux.HandleFunc("POST "+session.PathPoll, s.job(heard(func(ctx context.Context, c Caller, q session.Question) (any, error) {
		park(ctx)
		return j.Poll(ctx, c, q)
	})))
	mux.HandleFunc("POST "+session.PathAnswer, s.job(heard(func(ctx context.Context, c Caller, g session.Given) (any, error) {
		return struct{}{}, j.Answer(ctx, c, g)
	})))
	mux.HandleFunc("POST "+session.PathClose, s.job(heard(func(ctx context.Context, c Caller, e session.End) (any, error) {
		return struct{}{}, j.Close(ctx, c, e)
	})))
}

type attempt struct {
	Job     uint32 `json:"job"`
	Attempt int    `json:"attempt"`
}

// saying is what answers an authentic request's body.
type saying func(ctx context.Context, c Caller, body []byte) (any, error)

func heard[T any](do func(context.Context, Caller, T) (any, error)) saying {
	return func(ctx context.Context, c Caller, body []byte) (any, error) {
		var v T
		if err := json.Unmarshal(body, &v); err != nil {
			return nil, errors.Join(session.ErrInvalid, err)
		}
		return do(ctx, c, v)
	}
}

// job does what the requests of burst-sruns have in common.
func (s *Server) job(do saying) http.HandlerFunc {
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
		ctx, cancel := context.WithTimeout(r.Context(), session.Poll+workTimeout/2)
		defer cancel()
		s.answer(w, r, s.workJob(ctx, asked{Request: r, body: body}, do))
	})
}

func (s *Server) workJob(ctx context.Context, r asked, do saying) reply {
	uid, err := s.whose(ctx, &s.jobs, r)
	if err != nil {
		return reply{err: err}
	}
	addr, err := source(r.Request)
	if err != nil {
		return reply{err: err}
	}
	answers := digest([]byte(credentialOf(r.Request)))
	v, err := do(ctx, Caller{uid, addr}, r.body)
	if r.Context().Err() != nil {
		return reply{err: context.Cause(ctx)} // nobody is there to hear it
	}
	if err != nil {
		e := jobRefusal(err)
		v, err = map[string]string{"error": e.text, "kind": e.kind}, &told{e, err}
	}
	body, merr := answering(v, answers)
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
