package munge_test

import (
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
)

// BenchmarkARequest makes and opens one credential, as a node and burstd do for
// one request; munged itself is in the time. The payload is that of a beat.
func BenchmarkARequest(b *testing.B) {
	m := munge.New(munge.Options{Socket: mungetest.Start(b)})
	payload := []byte("POST /v1/node/beat 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	for b.Loop() {
		c, err := m.Encode(b.Context(), payload)
		if err == nil {
			_, err = m.Decode(b.Context(), c)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
