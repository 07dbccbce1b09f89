package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// How long one burstd may take, and how much it may say.
const (
	dialTimeout   = 3 * time.Second
	answerTimeout = 15 * time.Second // its own limit for the work is 20 s; asked again, it finds the work done
	maxAnswer     = 16 << 10         // bytes
	maxRetryAfter = 30 * time.Second
)

// burstd is reached under some URLs, of which the one that answered last is
// asked first.
type burstd struct {
	urls  []string
	uid   int
	munge Credentials
	http  *http.Client
	first atomic.Int64
}

func newBurstd(c Config) *burstd {
	t := c.transport
	if t == nil {
		// No proxy of the environment, as in the bootstrap; no connection is kept:
		// burstd closes them.
		t = &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: 2 * dialTimeout,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 2 * munge.MaxCredential,
		}
	}
	b := &burstd{uid: c.DaemonUID, munge: c.Munge, http: &http.Client{
		Transport: t, Timeout: answerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, u := range c.URLs {
		b.urls = append(b.urls, strings.TrimRight(u, "/"))
	}
	return b
}

// refusal is why no burstd has taken a request.
type refusal struct {
	errs  []error
	final bool          // all of them say that asking again is of no use
	after time.Duration // when to ask again at the earliest; 0: not said
}

func (r *refusal) Error() string { return errors.Join(r.errs...).Error() }

// isRefused says that asking again is of no use, in the words of whoever answered.
func isRefused(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.final
}

// retryAfter is what burstd asked for; 0: nothing.
func retryAfter(err error) time.Duration {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.after
	}
	return 0
}

// post sends body to the URLs in turn until one takes it, and returns its
// answer. A signed answer is believed only with burstd's credential of it, and
// only as the answer to this very request.
func (b *burstd) post(ctx context.Context, path string, body []byte, signed bool) ([]byte, error) {
	all := &refusal{final: len(b.urls) > 0}
	first := int(b.first.Load())
	for i := range b.urls {
		n := (first + i) % len(b.urls)
		answer, err := b.ask(ctx, b.urls[n]+path, body, signed)
		if err == nil {
			b.first.Store(int64(n))
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		all.errs = append(all.errs, err)
		all.final = all.final && isRefused(err)
		if after := retryAfter(err); after > 0 && (all.after == 0 || after < all.after) {
			all.after = after
		}
	}
	return nil, all
}

func (b *burstd) ask(ctx context.Context, url string, body []byte, signed bool) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// A credential for each try: munged lets it pass once.
	credential, err := b.munge.Encode(ctx, []byte("POST "+req.URL.Path+" "+sum(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "MUNGE "+credential)
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, refused(url, resp, answer)
	case err != nil:
		return nil, fmt.Errorf("the answer of %s did not come whole: %w", url, err)
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", url, maxAnswer)
	case !signed:
		return answer, nil
	}
	if err := b.trust(ctx, resp.Header.Get("Burst-Credential"), answer, credential); err != nil {
		return nil, fmt.Errorf("the answer of %s is not believed: %w", url, err)
	}
	return answer, nil
}

// trust checks that burstd made this answer, to what was asked under this
// credential: another node has not opened the answers that we have, and would
// take them for its own.
func (b *burstd) trust(ctx context.Context, credential string, answer []byte, asked string) error {
	c, err := b.munge.Decode(ctx, credential)
	switch {
	case err != nil:
		return err
	case c.UID != 0 && c.UID != b.uid:
		return fmt.Errorf("it is signed by uid %d, not by burstd's (%d) or root", c.UID, b.uid)
	case string(c.Payload) != sum(answer):
		return errors.New("it is not what its credential says")
	}
	var v struct{ Answers string }
	if err := json.Unmarshal(answer, &v); err != nil {
		return err
	}
	if v.Answers != sum([]byte(asked)) {
		return errors.New("it is the answer to another request")
	}
	return nil
}

// refused reads an answer that is no success. 401 may pass: clocks are set,
// and munged comes back with the right key.
func refused(url string, resp *http.Response, answer []byte) error {
	again := []int{http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	r := &refusal{final: resp.StatusCode >= 400 && resp.StatusCode < 500 && !slices.Contains(again, resp.StatusCode)}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		r.final = false // burstd wants to be asked again
		r.after = min(time.Duration(min(n, 3600))*time.Second, maxRetryAfter)
	}
	var said struct{ Error string }
	_ = json.Unmarshal(answer, &said) // it may be of something between us and burstd
	r.errs = []error{fmt.Errorf("%s answers %d %.300q", url, resp.StatusCode, said.Error)}
	return r
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
