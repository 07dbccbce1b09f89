package nodeapi

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
)

// BenchmarkBeat is a beat from the agent's credential to burstd's answer, each
// over a connection of its own and with real munged, client and server in one
// process: 2,000 nodes send 133 a second.
func BenchmarkBeat(b *testing.B) {
	m := munge.New(munge.Options{Socket: mungetest.Start(b)})
	s := New(&site{addr: "127.0.0.1"}, m, Limits{Agents: 1e6}, slog.New(slog.DiscardHandler))
	s.root = os.Getuid()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(b.Context(), ln) }() // to the end of the benchmark
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	body := `{"instance":"i-1","version":"1","slurmd_started":["2026-11-21T08:00:00Z"],"slurmd":true,"spool_used":12.5}`
	for b.Loop() {
		credential, err := m.Encode(b.Context(), []byte(payload("POST", beat, body)))
		if err != nil {
			b.Fatal(err)
		}
		req, err := http.NewRequestWithContext(b.Context(), "POST", "http://"+ln.Addr().String()+beat, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "MUNGE "+credential)
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
	}
}
