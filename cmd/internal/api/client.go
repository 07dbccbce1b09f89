package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// connectTimeout is ample: on a unix socket a connect never waits for a network.
const connectTimeout = 100 * time.Millisecond

// Client asks burstd over its socket. Its methods mirror Backend's; an error
// wraps ErrAway when nobody answers and is an *Error when burstd refused. An
// order whose answer was lost may have been taken: bring it again as it is.
type Client struct {
	socket string
	http   *http.Client
}

var _ Backend = (*Client)(nil)

// NewClient makes a client; it connects when first used.
func NewClient(socket string) *Client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		IdleConnTimeout: idleTimeout / 2, // before the server's, so that no request meets a closing connection
	}}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// AddOrder hands an order over; nil means that burstd has it on disk.
func (c *Client) AddOrder(ctx context.Context, o Order) error {
	return c.call(ctx, http.MethodPost, "/v1/orders", o, &struct{}{})
}

// Status asks for the daemon's state in numbers.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/status", nil, &s)
	return s, err
}

// Nodes asks for every node of ours.
func (c *Client) Nodes(ctx context.Context) (n []NodeStatus, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/nodes", nil, &n)
	return n, err
}

// Node asks for one node; false: there is none of that name.
func (c *Client) Node(ctx context.Context, name string) (n NodeStatus, ok bool, err error) {
	var all []NodeStatus
	err = c.call(ctx, http.MethodGet, "/v1/nodes?"+url.Values{"node": {name}}.Encode(), nil, &all)
	for _, n := range all { // a burstd of before returns all
		if n.Node == name {
			return n, true, err
		}
	}
	return n, false, err
}

// Events is Backend.Events.
func (c *Client) Events(ctx context.Context, after int64, wait time.Duration) (e []Event, err error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "wait": {wait.String()}}
	err = c.call(ctx, http.MethodGet, "/v1/events?"+q.Encode(), nil, &e)
	return e, err
}

// Gate is Backend.Gate.
func (c *Client) Gate(ctx context.Context, job uint32, nodes string, wait time.Duration) (a GateAnswer, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/gate", GateRequest{Job: job, Nodes: nodes, Wait: wait}, &a)
	return a, err
}

func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	var r io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("writing the request: %w", err)
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://burstd"+path, r)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.away(ctx, err)
	}
	defer resp.Body.Close()
	limited := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode != http.StatusOK {
		return readError(resp.StatusCode, limited)
	}
	if err := json.NewDecoder(limited).Decode(into); err != nil {
		return c.away(ctx, fmt.Errorf("reading the answer: %w", err))
	}
	return nil
}

// away says that burstd gave no answer, unless it was the caller who stopped waiting.
func (c *Client) away(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // its own text repeats the request's address
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w on %s: %w", ErrAway, c.socket, err)
}

func readError(status int, r io.Reader) error {
	var a struct {
		Error string `json:"error"`
	}
	if err := json.NewDecoder(r).Decode(&a); err != nil || a.Error == "" {
		a.Error = http.StatusText(status)
	}
	return &Error{status, a.Error}
}
