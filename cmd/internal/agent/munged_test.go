package agent

import (
	"context"
	"fmt"
	"sync"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// minted is a munged: a credential is good for once.
type minted struct {
	mu    sync.Mutex
	made  int
	open  map[string]munge.Credential
	away  bool
	asUID int
}

func (m *minted) Encode(_ context.Context, payload []byte) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return "", munge.ErrAway
	}
	m.made++
	c := fmt.Sprintf("MUNGE:%d:", m.made)
	m.open[c] = munge.Credential{UID: m.asUID, Payload: payload}
	return c, nil
}

func (m *minted) Decode(_ context.Context, credential string) (munge.Credential, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.open[credential]
	if !ok {
		return c, munge.ErrReplayed
	}
	delete(m.open, credential)
	return c, nil
}

func (m *minted) set(change func(*minted)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}
