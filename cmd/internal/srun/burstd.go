package srun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/ft/session"
)

// where is how burstd is found, and known by its answers.
type where struct {
	urls []string
	uid  int  // burstd's, beside root
	none bool // the site asks for checkpoints of no job
}

// agentEnv is what the bootstrap of a cloud node writes for burst-agent; it may be
// read by all.
const agentEnv = "/etc/burst/agent.env"

// findBurstd reads BURST_URLS, BURST_DAEMON_UID and BURST_CHECKPOINTS, of the
// environment or of file. No URLs: it is not known. An error is of a file that is there.
func findBurstd(env func(string) string, file string) (where, error) {
	urls, uid, checkpoints := env("BURST_URLS"), env("BURST_DAEMON_UID"), env("BURST_CHECKPOINTS")
	if urls == "" {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return where{}, fmt.Errorf("where burstd is cannot be read: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch name {
			case "BURST_URLS":
				urls = value
			case "BURST_DAEMON_UID":
				uid = value
			case "BURST_CHECKPOINTS":
				checkpoints = value
			}
		}
	}
	w := where{none: checkpoints == "none"}
	for _, u := range strings.FieldsFunc(urls, func(r rune) bool { return r == ' ' || r == ',' }) {
		w.urls = append(w.urls, strings.TrimRight(u, "/"))
	}
	if n, err := strconv.Atoi(uid); err == nil && n > 0 {
		w.uid = n
	}
	return w, nil
}

const dialTimeout = 3 * time.Second

// burstd speaks to burstd's listener for nodes, as this user.
type burstd struct {
	where
	munge credentials
	http  *http.Client
	first atomic.Int64 // of the URLs, the one that answered last
}

var _ session.Transport = (*burstd)(nil)

// credentials is munged.
type credentials interface {
	Encode(ctx context.Context, payload []byte) (string, error)
	Decode(ctx context.Context, credential string) (munge.Credential, error)
}

func newBurstd(w where, m credentials) *burstd {
	// No proxy of the environment: burstd is near, and a proxy would hold a long poll.
	t := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: 2 * dialTimeout,
		DisableKeepAlives: true, MaxResponseHeaderBytes: 2 * munge.MaxCredential}
	return &burstd{where: w, munge: m, http: &http.Client{Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Do implements session.Transport: the URLs are tried in turn.
func (b *burstd) Do(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	first := int(b.first.Load())
	var errs []error
	for i := range b.urls {
		n := (first + i) % len(b.urls)
		err := b.ask(ctx, b.urls[n]+path, body, out)
		var r *refusal
		if err == nil || errors.As(err, &r) && r.Unwrap() != nil {
			b.first.Store(int64(n))
			return err // burstd's own word
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (b *burstd) ask(ctx context.Context, url string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	credential, err := b.munge.Encode(ctx, []byte("POST "+req.URL.Path+" "+hexSum(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "MUNGE "+credential)
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, jobword.MaxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("the answer of %s did not come whole: %w", url, err)
	case len(answer) > jobword.MaxAnswer:
		return fmt.Errorf("the answer of %s has more than %d bytes", url, jobword.MaxAnswer)
	}
	// A refusal is signed as well: a false one would end the protection. One that is
	// not, because burstd does not know who asks, says nothing of the session.
	sign := resp.Header.Get("Burst-Credential")
	if sign != "" || resp.StatusCode == http.StatusOK {
		if err := b.trust(ctx, sign, answer, credential); err != nil {
			return unbelievedError{fmt.Errorf("the answer of %s is not believed: %w", url, err)}
		}
	}
	if resp.StatusCode != http.StatusOK {
		r := refused(url, resp, answer)
		if sign == "" {
			r.kind = nil
		}
		return r
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// unbelievedError is of an answer that somebody else may have made.
type unbelievedError struct{ error }

func (e unbelievedError) Unwrap() error { return e.error }

// trust checks that burstd, or root, made this answer, to this very request.
func (b *burstd) trust(ctx context.Context, sign string, answer []byte, asked string) error {
	c, err := b.munge.Decode(ctx, sign)
	if err != nil {
		return err
	}
	var v struct {
		Answers string `json:"answers"`
	}
	switch {
	case c.UID != 0 && c.UID != b.uid:
		return fmt.Errorf("it is signed by uid %d, not by burstd's (%d) or root", c.UID, b.uid)
	case string(c.Payload) != hexSum(answer):
		return errors.New("it is not what its credential says")
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return err
	}
	if v.Answers != hexSum([]byte(asked)) {
		return errors.New("it is the answer to another request")
	}
	return nil
}

// refusal is an answer that is no success.
type refusal struct {
	url, text string
	status    int
	kind      error // one of session's, or nil
	after     time.Duration
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s answers %d %.300q", r.url, r.status, r.text)
}
func (r *refusal) Unwrap() error             { return r.kind }
func (r *refusal) RetryAfter() time.Duration { return r.after }

// kinds are session's errors by the word that stands for them in an answer.
var kinds = map[string]error{
	"unknown": session.ErrUnknown, "replaced": session.ErrReplaced, "not-yours": session.ErrNotYours,
	"invalid": session.ErrInvalid, "full": session.ErrFull,
}

func refused(url string, resp *http.Response, answer []byte) *refusal {
	var said struct{ Error, Kind string }
	_ = json.Unmarshal(answer, &said) // it may be of something between us and burstd
	r := &refusal{url: url, text: said.Error, status: resp.StatusCode, kind: kinds[said.Kind]}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		r.after = time.Duration(min(n, 3600)) * time.Second
	}
	return r
}

func hexSum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
