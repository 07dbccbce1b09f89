package power

import (
	"testing"
	"time"
)

func TestBootPace(t *testing.T) {
	now := time.Now()
	node := func(age time.Duration, addr bool) Node {
		return Node{Phase: Booting, Since: now.Add(-age), AddrSet: addr}
	}
	tests := []struct {
		name        string
		moving      []Node
		look, stale time.Duration
	}{
		{"just launched", []Node{node(0, false)}, 250 * time.Millisecond, 10 * time.Second},
		{"just addressed", []Node{node(0, true)}, 250 * time.Millisecond, time.Second},
		{"booting", []Node{node(6*time.Second, true)}, 750 * time.Millisecond, 4 * time.Second},
		{"booting for long", []Node{node(time.Minute, true)}, 5 * time.Second, 10 * time.Second},
		{"an old and a young one", []Node{node(time.Minute, true), node(6*time.Second, true)}, 750 * time.Millisecond, 4 * time.Second},
		{"the young one has no address", []Node{node(9*time.Second, true), node(0, false)}, 250 * time.Millisecond, 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			look, stale := bootPace(tt.moving, now)
			if look != tt.look || stale != tt.stale {
				t.Errorf("look after %s, read when older than %s, want %s, %s", look, stale, tt.look, tt.stale)
			}
		})
	}
}
