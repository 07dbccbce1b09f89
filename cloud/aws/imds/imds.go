// Package imds reads EC2's instance metadata service, version 2: the
// instance's id, and what EC2 announces of it. It is made for a small program on
// the instance and needs no SDK: the SDK's client retries with a token for each
// try, trusts the wall clock about a token's age and reads bodies of any size.
package imds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// DefaultURL is where an instance finds the service.
const DefaultURL = "http://169.254.169.254"

// maxBody is far beyond what the service answers, in bytes.
const maxBody = 64 << 10

// Options of a client; zero fields take the defaults in brackets.
type Options struct {
	URL      string        // [DefaultURL]
	Timeout  time.Duration // of one request [5 s]
	TokenTTL time.Duration // at most 6 h, whole seconds [6 h]
	// Transport makes the requests. [one that uses no proxy, for the service is on the host itself]
	Transport http.RoundTripper
}

// Client asks one metadata service. It may be used by many at once.
type Client struct {
	url    string
	http   *http.Client
	tokens *tokens
}

// ErrNone: the service has nothing under this path.
var ErrNone = errors.New("the metadata service has nothing there")

// New makes a client; it asks nothing yet. An URL that is none is an error.
func New(o Options) (*Client, error) {
	if o.URL == "" {
		o.URL = DefaultURL
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.TokenTTL == 0 {
		o.TokenTTL = maxTTL
	}
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%q is no URL of a metadata service: write it as in %q", o.URL, DefaultURL)
	}
	if o.Transport == nil {
		// A few connections are kept, one for each of those that ask at the same time.
		o.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: o.Timeout}).DialContext,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10,
		}
	}
	c := &Client{url: strings.TrimRight(o.URL, "/"), http: &http.Client{
		Timeout:   o.Timeout,
		Transport: o.Transport,
		// A redirect could carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.tokens = newTokens(c.fetchToken, o.TokenTTL)
	return c, nil
}

// Get reads what is under a path such as "instance-id", below
// /latest/meta-data. It is ErrNone if there is nothing. A token that is refused
// is replaced once; then the refusal is an error.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	path = "/latest/meta-data/" + path
	body, err := c.get(ctx, path)
	if errors.Is(err, errUnauthorized) {
		body, err = c.get(ctx, path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the metadata service: %w", path, err)
	}
	return body, nil
}

var errUnauthorized = errors.New("it answers 401: the token is not taken")

func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	token, err := c.tokens.get(ctx)
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, http.MethodGet, path, http.Header{tokenHeader: {token}})
	switch {
	case err != nil:
		return nil, err
	case a.status == http.StatusUnauthorized:
		c.tokens.drop(token)
		return nil, errUnauthorized
	case a.status == http.StatusNotFound:
		return nil, ErrNone
	case a.status != http.StatusOK:
		return nil, fmt.Errorf("it answers %d", a.status)
	}
	return a.body, nil
}

// answer is one of the service's.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes one request and reads the whole answer.
func (c *Client) do(ctx context.Context, method, path string, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header = header
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("its answer did not come whole: %w", err)
	case len(body) > maxBody:
		return answer{}, fmt.Errorf("its answer has more than %d bytes", maxBody)
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

var instanceIDs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`) })

// InstanceID reads the instance's id.
func (c *Client) InstanceID(ctx context.Context) (string, error) {
	text, err := c.Get(ctx, "instance-id")
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if !instanceIDs().MatchString(id) {
		return "", fmt.Errorf("the metadata service says that the instance is %.40q, which is no id", id)
	}
	return id, nil
}
