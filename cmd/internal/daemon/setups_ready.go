package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
)

// checkAgain is how often it is looked whether nodes can be set up at all.
const checkAgain = time.Minute

// ready has the engine launch nothing for pools whose nodes could not be set up: they
// would be paid for, and become nothing. It looks again until ctx ends. Nobody waits for
// it: an ssh-agent, or a folder of a server's, may not answer.
func (s *setups) ready(ctx context.Context) {
	for last := map[source]string{}; ; {
		for of, p := range s.pools {
			why := unready(p)
			if why != "" && why != last[of] {
				s.log.Error("no node can be set up over SSH", "pool", of.pool, "provider", of.provider, "error", why)
			}
			last[of] = why
			if err := s.engine.SetUnready(ctx, of.pool, of.provider, why); err != nil && ctx.Err() == nil {
				s.log.Error("a pool whose nodes cannot be set up may launch", "pool", of.pool, "provider", of.provider, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(checkAgain):
		}
	}
}

// unready is why no node of the pool can be set up; "": nothing is seen to be missing.
func unready(p config.Pool) string {
	if err := p.SSH.Auth.Check(); err != nil {
		return fmt.Sprintf("no node can be set up over SSH: %v", err)
	}
	if path := p.Boot.Sent(); path != "" {
		if _, err := os.ReadFile(path); err != nil {
			return fmt.Sprintf("the MUNGE key that is sent to nodes cannot be read: %v", err)
		}
	}
	return ""
}
