package vultr

import (
	"context"
	"sync"
)

// turns lets one call at a time work on a launch's token. The zero turns is free.
type turns struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// take waits for the token's turn. The turn ends with the returned function.
func (t *turns) take(ctx context.Context, token string) (func(), error) {
	for {
		t.mu.Lock()
		wait, busy := t.held[token]
		if !busy {
			if t.held == nil {
				t.held = map[string]chan struct{}{}
			}
			done := make(chan struct{})
			t.held[token] = done
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.held, token)
				close(done)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
