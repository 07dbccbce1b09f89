package nodeapi

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// lane is what one kind of request may use, apart from the others.
type lane struct {
	rates *rates
	turns *turns
}

// rates limits the requests of each address.
type rates struct {
	rate  rate.Limit
	burst int

	mu  sync.Mutex
	all map[netip.Addr]*rate.Limiter
}

// maxAddrs bounds the addresses that are remembered. Above it, those that have
// been quiet are forgotten; a TCP address cannot be forged, so that so many
// others are many real hosts.
const maxAddrs = 1 << 16

func newRates(r float64, burst int) *rates {
	return &rates{rate: rate.Limit(r), burst: burst, all: map[netip.Addr]*rate.Limiter{}}
}

func (r *rates) allow(a netip.Addr, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.all[a]
	if l == nil {
		if len(r.all) >= maxAddrs {
			r.forget(now)
		}
		if len(r.all) >= maxAddrs {
			return false
		}
		l = rate.NewLimiter(r.rate, r.burst)
		r.all[a] = l
	}
	return l.AllowN(now, 1)
}

// forget drops the addresses to which nothing is held any more.
func (r *rates) forget(now time.Time) {
	for a, l := range r.all {
		if l.TokensAt(now) >= float64(r.burst) {
			delete(r.all, a)
		}
	}
}

// turnTimeout is how long a request waits for its turn: those before it hang.
const turnTimeout = 5 * time.Second

// turns lets a few credentials be opened at once, some wait, and refuses more.
type turns struct {
	slots   chan struct{}
	waiting atomic.Int64
	most    int64
}

func newTurns(opening, waiting int) *turns {
	return &turns{slots: make(chan struct{}, opening), most: int64(waiting)}
}

func (t *turns) full() bool { return t.waiting.Load() >= t.most }

// enter waits for a turn, which ends with leave.
func (t *turns) enter(ctx context.Context) (leave func(), err error) {
	if t.waiting.Add(1) > t.most {
		t.waiting.Add(-1)
		return nil, busy()
	}
	defer t.waiting.Add(-1)
	timer := time.NewTimer(turnTimeout)
	defer timer.Stop()
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots }, nil
	case <-timer.C:
		return nil, busy()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// limitedListener bounds the connections at once, over all and by address.
type limitedListener struct {
	net.Listener
	slots   chan struct{}
	perAddr int
	closed  chan struct{}
	once    sync.Once

	mu    sync.Mutex
	addrs map[netip.Addr]int
}

func limitConns(ln net.Listener, l Limits) net.Listener {
	return &limitedListener{Listener: ln, slots: make(chan struct{}, l.Conns), perAddr: l.PerAddr,
		closed: make(chan struct{}), addrs: map[netip.Addr]int{}}
}

// Accept waits for a connection and for room for it. While there is none,
// others wait in the kernel.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		if a := addrOf(c); l.add(a) {
			return &limitedConn{Conn: c, free: sync.OnceFunc(func() { l.remove(a); <-l.slots })}, nil
		}
		c.Close()
		<-l.slots
	}
}

// Close also ends an Accept that waits for room.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func addrOf(c net.Conn) netip.Addr {
	a, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // the zero Addr counts as one
	return a.Addr().Unmap()
}

func (l *limitedListener) add(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addrs[a] >= l.perAddr {
		return false
	}
	l.addrs[a]++
	return true
}

func (l *limitedListener) remove(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addrs[a]--; l.addrs[a] == 0 {
		delete(l.addrs, a)
	}
}

type limitedConn struct {
	net.Conn
	free func()
}

type connKey struct{}

// withConn lets a handler find its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// park gives the place of a connection to others while its request waits.
func park(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*limitedConn); ok {
		c.free()
	}
}

func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
