package vultr

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

// The times and sizes of our HTTP client. To make an instance takes Vultr a few
// seconds; connecting may not.
const (
	dialTimeout = 10 * time.Second
	callTimeout = 60 * time.Second // with the body
	maxConns    = 16
	maxRefusal  = 64 << 10 // bytes that are read of an answer that refuses
)

// Requests that change nothing when they are repeated are repeated so often,
// after waits of this length and of its double, if Vultr does not ask for another.
const (
	repeats  = 2
	mostWait = 5 * time.Second // longer ones are the caller's
)

var repeatWait = 250 * time.Millisecond // a variable for tests

// client makes the one API client: all its calls pass wire.
func (p *Provider) client(proxy func(*http.Request) (*url.URL, error)) (*govultr.Client, error) {
	at := cmp.Or(p.c.Endpoint, "https://api.vultr.com")
	w := &wire{p: p, limits: limitsOf(at), next: &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConns:        maxConns, MaxIdleConnsPerHost: maxConns, MaxConnsPerHost: maxConns,
		IdleConnTimeout:   90 * time.Second,
		ForceAttemptHTTP2: true,
	}}
	api := govultr.NewClient(&http.Client{
		Transport: w,
		Timeout:   callTimeout,
		// The key goes to Vultr alone, whatever an answer says.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	api.SetRetryLimit(0) // wire knows which requests may be repeated
	api.SetUserAgent("burst-hpc")
	if err := api.SetBaseURL(at); err != nil {
		return nil, fmt.Errorf("endpoint %q is not a URL: %w", at, err)
	}
	return api, nil
}

// answer is what the SDK's errors do not tell of a call: they are texts alone.
type answer struct {
	status     int
	said       string        // Vultr's own words
	retryAfter time.Duration // 0: not said
	err        error         // of the network, or our own
}

type answerKey struct{}

// call runs one call of the SDK. Its error is a *cloud.Error.
func call(ctx context.Context, op, what string, do func(context.Context) error) error {
	var a answer
	err := do(context.WithValue(ctx, answerKey{}, &a))
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		a.err = ctx.Err()
	}
	return failure(op, what, a, err)
}

// request makes a call that the SDK has no good method for: where its own
// sends more than is meant, or reads less than is said.
func (p *Provider) request(ctx context.Context, method, path string, body, into any) error {
	r, err := p.api.NewRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	_, err = p.api.DoWithContext(ctx, r, into)
	return err
}

// wire sends requests: each waits for its turn, has the key, is counted, and
// leaves in its context's answer what became of it.
type wire struct {
	p      *Provider
	limits *limits
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper. Only what may be done twice is
// repeated: never what makes something.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	a, _ := ctx.Value(answerKey{}).(*answer)
	if a == nil {
		a = new(answer)
	}
	for n := 0; ; n++ {
		response, err := w.once(r, a)
		wait := max(a.retryAfter, repeatWait<<n+rand.N(repeatWait))
		if n == repeats || wait > mostWait || !repeatable(r.Method, a, err) {
			return response, err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return response, err
		}
		select {
		case <-ctx.Done():
			a.err = ctx.Err()
			return nil, a.err
		case <-time.After(wait):
		}
	}
}

// repeatable says whether a request may be sent again after what became of it.
func repeatable(method string, a *answer, err error) bool {
	var own *cloud.Error
	if method != http.MethodGet && method != http.MethodDelete || errors.As(err, &own) {
		return false
	}
	return err != nil || a.status == http.StatusTooManyRequests || a.status >= 500
}

func (w *wire) once(r *http.Request, a *answer) (*http.Response, error) {
	*a = answer{}
	key, err := w.p.keyFor(r.Context())
	var answered func()
	if err == nil {
		answered, err = w.limits.send(r.Context())
	}
	if err != nil {
		a.err = err
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+key)
	began := time.Now()
	response, err := w.next.RoundTrip(r)
	answered()
	if err != nil {
		a.err = err
		w.p.meter.add(r, resultOf(err, 0))
		return nil, err
	}
	a.status = response.StatusCode
	if ahead := w.p.clock.saw(response.Header, began, time.Now()); ahead != 0 && !w.p.clock.told.Swap(true) {
		w.p.log.Warn(w.p.clock.off(), "provider", w.p.c.Name)
	}
	w.p.meter.add(r, resultOf(nil, a.status))
	w.p.log.Debug("Vultr was asked", "provider", w.p.c.Name, "method", r.Method, "path", r.URL.Path, "status", a.status, "took", time.Since(began))
	if a.status < 300 {
		return response, nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	_ = response.Body.Close() // what it said has been read
	response.Body = io.NopCloser(bytes.NewReader(text))
	response.ContentLength = int64(len(text))
	if err != nil && len(text) == 0 {
		a.err = err
	}
	a.said = saidIn(text)
	a.retryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	if a.status == http.StatusTooManyRequests {
		w.limits.pause(a.retryAfter)
	}
	return response, nil
}

// saidIn reads what a refusal says: {"error":"…","status":400}, or a text.
func saidIn(body []byte) string {
	var refusal struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &refusal) == nil && refusal.Error != "" {
		return refusal.Error
	}
	text := strings.Join(strings.Fields(string(body)), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}

// longestWait is as long as we believe a server that we shall wait.
const longestWait = 10 * time.Minute

// retryAfter reads the header: seconds, or a date. What cannot be read is 0.
func retryAfter(header string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(header)); err == nil {
		return time.Duration(min(max(n, 0), int(longestWait/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), longestWait)
	}
	return 0
}

type oneKey struct{}

// withKey has all requests of a context made with the key that is there now: what one account was
// asked for, another must not be asked to end.
func (p *Provider) withKey(ctx context.Context) (context.Context, error) {
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, oneKey{}, key), nil
}

func (p *Provider) keyFor(ctx context.Context) (string, error) {
	if key, ok := ctx.Value(oneKey{}).(string); ok {
		return key, nil
	}
	return p.key()
}

// key is the account's API key. It is read for each request, but for those of one launch, so that
// one that has been exchanged holds at once.
func (p *Provider) key() (string, error) {
	if p.c.KeyFile == "" {
		if key := os.Getenv("VULTR_API_KEY"); key != "" {
			return key, nil
		}
		return "", noKey(errors.New("VULTR_API_KEY is not set, and provider " + p.c.Name + " names no api_key_file"))
	}
	info, err := os.Stat(p.c.KeyFile)
	if err != nil {
		return "", noKey(err)
	}
	if info.Mode()&0o007 != 0 {
		return "", noKey(fmt.Errorf("%s may be read by everybody: run chmod 600 on it", p.c.KeyFile))
	}
	text, err := os.ReadFile(p.c.KeyFile)
	if err != nil {
		return "", noKey(err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", noKey(fmt.Errorf("%s does not hold one key on one line", p.c.KeyFile))
	}
	return key, nil
}
