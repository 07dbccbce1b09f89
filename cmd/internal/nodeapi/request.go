package nodeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

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
	addr       string
	credential string // its SHA-256 in hex: no other request has it
	Instance   string `json:"instance"`

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
	body       []byte // with err, what is said in place of its text alone
	credential string
	err        error
	file       *download // in place of a small body
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
			defer a.file.leave()
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
	return refuse(http.StatusRequestTimeout, "the request did not come whole: %v", err)
}

func (s *Server) work(ctx context.Context, l *lane, r asked) reply {
	if err := s.authentic(ctx, l, r); err != nil {
		return reply{err: err}
	}
	var q question
	if err := json.Unmarshal(r.body, &q); err != nil {
		return reply{err: refuse(http.StatusBadRequest, "the request is not the JSON it should be: %v", err)}
	}
	if !instanceIDs().MatchString(q.Instance) {
		return reply{err: refuse(http.StatusBadRequest, "%.40q is no instance's id", q.Instance)}
	}
	addr, err := source(r.Request)
	if err != nil {
		return reply{err: err}
	}
	q.addr, q.credential = addr.String(), digest([]byte(credentialOf(r.Request)))
	v, err := r.do(ctx, q)
	if err != nil {
		return reply{err: err}
	}
	if f, ok := v.(download); ok {
		credential, err := s.munge.EncodeFor(ctx, []byte(f.sum), sendTimeout)
		if err != nil {
			f.leave()
			return reply{err: err}
		}
		return reply{credential: credential, file: &f}
	}
	u, bare := v.(unsigned)
	if bare {
		v = u.any
	}
	text, err := json.Marshal(v)
	if err != nil || bare {
		return reply{body: text, err: err}
	}
	credential, err := s.munge.EncodeFor(ctx, []byte(digest(text)), 0)
	return reply{body: text, credential: credential, err: err}
}

// credentialOf is what a request came with; "" if nothing.
func credentialOf(r *http.Request) string {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "MUNGE") {
		return ""
	}
	return text
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// authentic checks that root of a host with our MUNGE key made this very request.
func (s *Server) authentic(ctx context.Context, l *lane, r asked) error {
	uid, err := s.whose(ctx, l, r)
	if err == nil && uid != s.root {
		return refuse(http.StatusForbidden, "the credential is uid %d's, not root's", uid)
	}
	return err
}

// whose is the uid that made this very request, on a host with our MUNGE key.
func (s *Server) whose(ctx context.Context, l *lane, r asked) (uid int, err error) {
	text := credentialOf(r.Request)
	if text == "" {
		return 0, refuse(http.StatusUnauthorized, "the header Authorization: MUNGE <credential> is missing")
	}
	leave, err := l.turns.enter(ctx)
	if err != nil {
		return 0, err
	}
	c, err := s.munge.Decode(ctx, text)
	leave() // what comes now may wait for the journal, together with others
	for _, why := range []error{munge.ErrReplayed, munge.ErrExpired, munge.ErrRewound, munge.ErrInvalid} {
		if errors.Is(err, why) {
			return 0, refuse(http.StatusUnauthorized, "%v", why)
		}
	}
	if err != nil {
		return 0, err
	}
	if want := r.Method + " " + r.URL.Path + " " + digest(r.body); string(c.Payload) != want {
		return 0, refuse(http.StatusUnauthorized, "the credential is not this request's")
	}
	return c.UID, nil
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
