package power

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"
)

// SetUnready has a pool launch nothing at a provider while its nodes could not be set up, as
// when a key for that is missing: they would be paid for, and become nothing. Why
// says what is missing; "" has it launch again, with the jobs that waited for it.
// The journal does not keep it: whoever says it says it again after a start. It may
// be said as often as one likes, and changes nothing of what StopPool has stopped.
func (e *Engine) SetUnready(ctx context.Context, pool, provider, why string) error {
	source := e.source(pool, provider)
	key, text := sourceKey(pool, provider), stoppedText(pool, source)
	if why = oneLine(why); why != "" {
		text += why
	}
	e.mu.Lock()
	_, known := e.pools[pool].source(provider)
	had, is := e.mem.unready[key]
	same := known && (is && had == text || !is && why == "")
	e.mu.Unlock()
	if same {
		return nil // without asking Slurm
	}
	snap := e.jobsNow(ctx)
	return e.do(ctx, func(ctx context.Context) error {
		if !known {
			return fmt.Errorf("%w: %q", ErrNoPool, pool)
		}
		now := maps.Clone(e.mem.unready) // plans may look at the old one
		if now == nil {
			now = map[string]string{}
		}
		var c Change
		if why != "" {
			now[key] = text
			c.Events = []Event{{Time: time.Now(), Kind: "pool-stopped", Pool: pool,
				Text: strings.TrimPrefix(source+": "+why, ": ") + "; it launches again by itself when that is mended"}}
		} else {
			delete(now, key)
			c.Events = []Event{{Time: time.Now(), Kind: "pool-started", Pool: pool, Text: strings.TrimPrefix(source+": its nodes can be set up again", ": ")}}
		}
		e.mu.Lock()
		e.mem.unready = now
		e.mu.Unlock()
		if _, stopped := e.mem.stopped(pool, provider); !stopped {
			unhold(&c, e.mem, snap, stoppedText(pool, source), fmt.Sprintf("pool %s launches again", pool))
		}
		return e.commit(ctx, c)
	})
}
