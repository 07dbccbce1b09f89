package ssh

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// refused marks what a host answers that a few more tries may mend: cloud-init may
// not have put our key, or sudo's rule, there yet.
type refused struct{ error }

func (e refused) Unwrap() error { return e.error }

// final marks what no further try mends.
type final struct{ error }

func (e final) Unwrap() error { return e.error }

// connection is an SSH connection that closes itself when the host falls silent.
type connection struct {
	*ssh.Client
	shown ssh.PublicKey // the host's
	stop  context.CancelFunc
}

func (c *connection) close() {
	c.stop()
	_ = c.Client.Close() // the host may have closed it
}

// dial makes a connection to a host that has proved who it is.
func (r *Runner) dial(ctx context.Context, h Host) (*connection, error) {
	want, err := r.expected(h)
	if err != nil {
		return nil, final{fmt.Errorf("reading the host key that is kept: %w", err)}
	}
	c, err := r.connect(ctx, h, want)
	if err != nil || h.Word == "" || len(want) > 0 {
		return c, err
	}
	if err := r.prove(ctx, c, h); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// prove has a host whose key is not known say its word, and pins its key then. Who
// does not know it may have answered in the host's place, or the host does not know it yet.
func (r *Runner) prove(ctx context.Context, c *connection, h Host) error {
	a, err := c.verb(ctx, h, "word")
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(a.word), []byte(h.Word)) != 1 {
		return refused{errors.New("it says another word than the cloud has told it: has its user data been run, or does somebody else answer?")}
	}
	h.Word = ""
	err = r.admit(h, nil, c.shown)
	if errors.Is(err, ErrHostKey) {
		return final{err}
	}
	return err
}

// connect makes a connection to a host that shows one of the wanted keys.
func (r *Runner) connect(ctx context.Context, h Host, want []ssh.PublicKey) (*connection, error) {
	leave, err := enter(ctx, r.dials)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.DialTime, fmt.Errorf("no answer within %s", r.cfg.DialTime))
	defer cancel()
	port := h.Port
	if port == 0 {
		port = 22
	}
	addr := netip.AddrPortFrom(h.Addr.Unmap(), uint16(port)).String()
	if err := r.step("ssh dial"); err != nil {
		return nil, err
	}
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, cause(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = plain.Close() })
	defer stop()
	signers, done, err := r.cfg.Auth.signers(ctx)
	if err != nil {
		_ = plain.Close()
		return nil, err // no fault of the host: the agent may be back soon
	}
	defer done()
	var shown ssh.PublicKey
	var unknown error // why the host's key was not taken
	conn, channels, requests, err := ssh.NewClientConn(plain, addr, &ssh.ClientConfig{
		User: h.User,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			shown, unknown = key, r.admit(h, want, key)
			return unknown
		},
		HostKeyAlgorithms: algorithms(want),
		ClientVersion:     "SSH-2.0-Burst",
	})
	if err == nil && !stop() {
		err = context.Cause(ctx)
		_ = conn.Close()
	}
	switch {
	case err == nil:
	case errors.Is(unknown, ErrHostKey):
		return nil, final{unknown}
	case unknown != nil:
		return nil, unknown
	case unsigned(signers) != nil:
		return nil, unsigned(signers)
	case ctx.Err() != nil:
		return nil, cause(ctx, err)
	case isNoAuth(err):
		return nil, refused{fmt.Errorf("it does not let user %s in with our key: is the key, and the user, the image's? (%w)", h.User, err)}
	case isNoKey(err) && len(want) > 0:
		return nil, final{fmt.Errorf("%w: it has none of the type that is known of it (%w)", ErrHostKey, err)}
	default:
		return nil, err
	}
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	c := &connection{ssh.NewClient(conn, channels, requests), shown, end}
	go c.watch(alive, r.cfg.Silence)
	return c, nil
}

// cause is why ctx ended, if it did, and not what followed from it.
func cause(ctx context.Context, err error) error {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // a dialer's own timer may be a moment before ctx's
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// The library has no error values for these.
func isNoAuth(err error) bool {
	return strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "oo many authentication failures")
}

func isNoKey(err error) bool {
	return strings.Contains(err.Error(), "no common algorithm for host key")
}

// watch asks the host for a sign of life and closes the connection without one:
// TCP alone would wait for many minutes.
func (c *connection) watch(ctx context.Context, silence time.Duration) {
	var asking, heard atomic.Int64
	tick := time.NewTicker(silence / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if since := asking.Load(); since > heard.Load() {
			if time.Since(time.Unix(0, since)) >= silence*2/3 {
				_ = c.Client.Close()
				return
			}
			continue
		}
		now := time.Now().UnixNano()
		asking.Store(now)
		go func() {
			// An answer that refuses is one too.
			if _, _, err := c.SendRequest("keepalive@openssh.com", true, nil); err == nil {
				heard.Store(now)
			}
		}()
	}
}
