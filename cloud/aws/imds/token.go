package imds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	tokenPath   = "/latest/api/token"
	tokenHeader = "X-Aws-Ec2-Metadata-Token"
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"

	maxTTL   = 6 * time.Hour // what the service allows
	maxToken = 4 << 10       // bytes
)

// tokens keeps the token of a client. Those who need a new one at the same time
// wait for one.
type tokens struct {
	fetch func(ctx context.Context, ttl time.Duration) (token string, lasts time.Duration, err error)
	ttl   time.Duration
	turn  chan struct{} // of one; whoever has it may read and change what follows

	token string
	until time.Time // by the monotonic clock: the wall clock may be set; a 401 tells when the host slept
}

func newTokens(fetch func(context.Context, time.Duration) (string, time.Duration, error), ttl time.Duration) *tokens {
	return &tokens{fetch: fetch, ttl: ttl, turn: make(chan struct{}, 1)}
}

// get returns the token, a new one if there is none or it is about to expire.
func (t *tokens) get(ctx context.Context) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if t.token != "" && time.Now().Before(t.until) {
		return t.token, nil
	}
	token, lasts, err := t.fetch(ctx, t.ttl)
	if err != nil {
		return "", fmt.Errorf("asking for a token: %w", err)
	}
	t.token, t.until = token, time.Now().Add(lasts*9/10)
	return token, nil
}

// drop forgets the token, unless somebody else has replaced it already.
func (t *tokens) drop(token string) {
	t.turn <- struct{}{}
	if t.token == token {
		t.token = ""
	}
	<-t.turn
}

// fetchToken is the PUT that version 2 of the protocol begins with. There is
// no way back to version 1.
func (c *Client) fetchToken(ctx context.Context, ttl time.Duration) (string, time.Duration, error) {
	resp, err := c.do(ctx, http.MethodPut, tokenPath, http.Header{ttlHeader: {strconv.Itoa(int(ttl.Seconds()))}})
	if err != nil {
		return "", 0, err
	}
	token := strings.TrimSpace(string(resp.body))
	switch {
	case resp.status != http.StatusOK:
		return "", 0, fmt.Errorf("it answers %d", resp.status)
	case token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", 0, errors.New("its answer is no token")
	}
	// The service says how long it lasts, which may be less than was asked.
	if n, err := strconv.Atoi(resp.header.Get(ttlHeader)); err == nil && n > 0 && n < int(ttl.Seconds()) {
		ttl = time.Duration(n) * time.Second
	}
	return token, ttl, nil
}
