package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/time/rate"
)

// Authz says who may give orders.
type Authz struct {
	SlurmUID int // uid of SlurmUser; root may always
}

func (a Authz) privileged(uid int) bool { return uid == 0 || uid == a.SlurmUID }

// What one unprivileged uid may use, so that no user starves slurmctld.
const (
	userConns = 16 // connections at once
	userRate  = 10 // requests a second
	userBurst = 30 // requests at once after a pause
)

type uidKey struct{}

// peerUID is the uid at the other end, as the kernel had it at connect time.
func peerUID(c net.Conn) (int, error) {
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("asking for the peer's uid: %w", err)
	}
	return int(cred.Uid), nil
}

// peers counts what each unprivileged uid uses.
type peers struct {
	authz Authz

	mu    sync.Mutex
	conns map[net.Conn]int // unprivileged connection -> uid
	users map[int]*usage
}

type usage struct {
	conns int
	limit *rate.Limiter
}

func newPeers(a Authz) *peers {
	return &peers{authz: a, conns: map[net.Conn]int{}, users: map[int]*usage{}}
}

// connect notes a new connection's uid in ctx, or closes the connection.
func (p *peers) connect(ctx context.Context, c net.Conn) (context.Context, error) {
	uid, err := peerUID(c)
	if err == nil && !p.authz.privileged(uid) && !p.add(c, uid) {
		err = fmt.Errorf("uid %d has %d connections already", uid, userConns)
	}
	if err != nil {
		c.Close()
		return ctx, err
	}
	return context.WithValue(ctx, uidKey{}, uid), nil
}

func (p *peers) add(c net.Conn, uid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[uid]
	if u == nil {
		u = &usage{limit: rate.NewLimiter(userRate, userBurst)}
		p.users[uid] = u
	}
	if u.conns >= userConns {
		return false
	}
	u.conns++
	p.conns[c] = uid
	return true
}

// disconnect forgets a connection, and its user once the rate has recovered:
// until then, closing and opening again buys nothing.
func (p *peers) disconnect(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid, ok := p.conns[c]
	if !ok {
		return
	}
	delete(p.conns, c)
	p.users[uid].conns--
	for uid, u := range p.users {
		if u.conns == 0 && u.limit.Tokens() >= userBurst {
			delete(p.users, uid)
		}
	}
}

// allow says whether uid may send one more request now.
func (p *peers) allow(uid int) bool {
	if p.authz.privileged(uid) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[uid]
	return u != nil && u.limit.Allow()
}
