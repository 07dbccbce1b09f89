package srun

import (
	"context"
	"net"
	"net/http"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/ft/session"
)

// Link is how burst-srun reaches burstd.
type Link struct {
	URLs  []string // of burstd's listener for nodes, "http://10.0.0.5:9811"; asked in turn
	UID   int      // burstd's; its answers are believed, and root's
	Munge *munge.Munge
	// Dial connects; nil: from any address of this host, within 3 s.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Transport leads there.
func (l Link) Transport() session.Transport {
	b := newBurstd(where{urls: l.URLs, uid: l.UID}, l.Munge)
	if t, ok := b.http.Transport.(*http.Transport); ok && l.Dial != nil {
		t.DialContext = l.Dial
	}
	return b
}
