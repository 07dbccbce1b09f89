package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken below the range from which Linux gives out ports to
// clients (32768 on), in blocks. A cloud node's port is free until the node
// boots, so looking whether a port is free is not enough: a block belongs to
// who listens on the abstract unix socket of its name. That needs no file,
// holds between users, and ends with whoever has it open.
const (
	firstPort = 20000
	lastPort  = 32000
	blockSize = 50
)

type ports struct {
	first int
	locks []*net.UnixListener
}

var errTaken = errors.New("ports are taken")

// takePorts reserves n consecutive ports on which nobody listens.
func takePorts(n int) (*ports, error) {
	blocks := (n + blockSize - 1) / blockSize
	places := (lastPort-firstPort)/blockSize - blocks + 1
	if places < 1 {
		return nil, fmt.Errorf("a sandbox has at most %d ports, not %d", lastPort-firstPort, n)
	}
	start := rand.IntN(places)
	for i := range places {
		p := &ports{first: firstPort + (start+i)%places*blockSize}
		switch err := p.take(n); {
		case err == nil:
			return p, nil
		case !errors.Is(err, errTaken):
			return nil, err
		}
	}
	return nil, fmt.Errorf("no %d consecutive free ports between %d and %d", n, firstPort, lastPort)
}

func (p *ports) take(n int) error {
	for port := p.first; port < p.first+n; port += blockSize {
		name := fmt.Sprintf("@burst-sandbox-ports-%d", port)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			p.release()
			return errTaken
		}
		p.locks = append(p.locks, l)
	}
	for port := p.first; port < p.first+n; port++ {
		l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
		if err != nil {
			p.release()
			return errTaken
		}
		l.Close()
	}
	return nil
}

// release closes only sockets, which cannot fail in a way that matters.
func (p *ports) release() {
	for _, l := range p.locks {
		l.Close()
	}
	p.locks = nil
}
