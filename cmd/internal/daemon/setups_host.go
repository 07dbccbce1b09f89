package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/slurm/power"
)

// shared is what carriers, and VPNs, use for networks of their own.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// private says whether only a network of the site's leads to the address.
func private(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || shared.Contains(a)
}

// consolePace is the time between two looks at a console: EC2 shows it minutes late.
const consolePace = 15 * time.Second

// shown waits for the host keys that the cloud's console shows.
func (s *setups) shown(ctx context.Context, i power.Instance) ([]xssh.PublicKey, error) {
	c, ok := s.providers[i.Provider].(cloud.Consoler)
	if !ok {
		return nil, fmt.Errorf("provider %s shows no consoles, and so no host keys: write host_key = \"pin\"", i.Provider)
	}
	for {
		text, err := c.Console(ctx, i.ID)
		if keys := ssh.ConsoleKeys(text); len(keys) > 0 {
			return keys, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("the instance's console has shown no host keys: does cloud-init print them on the image, or is host_key = \"pin\" what you want?"), err)
		case <-time.After(consolePace*4/5 + rand.N(consolePace*2/5)):
		}
	}
}
