package nodeapi

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// program writes what looks like a program for arch, of so many bytes of noise.
func (w *world) program(name, arch string, size int) []byte {
	w.Helper()
	text := make([]byte, size)
	rand.Read(text) // never fails
	copy(text, "\x7fELF")
	binary.LittleEndian.PutUint16(text[18:], machines[arch])
	if err := os.WriteFile(filepath.Join(w.files.dirs[0], name), text, 0o755); err != nil {
		w.Fatal(err)
	}
	return text
}

func (w *world) fetch(arch string) response {
	w.Helper()
	return w.ask(request{"POST", agent, `{"instance":"i-1","arch":"` + arch + `"}`, "own"})
}

// TestPlaces: what make install puts into PREFIX/lib/burst is found from PREFIX/sbin.
func TestPlaces(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sbin := filepath.Dir(exe)
	if got := places(); got[0] != sbin || got[1] != filepath.Join(filepath.Dir(sbin), "lib/burst") {
		t.Errorf("%q", got)
	}
}

func TestTheAgentIsServed(t *testing.T) {
	w := newWorld(t, Limits{Burst: 1000})
	w.files.dirs = []string{t.TempDir(), t.TempDir()}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for _, tt := range []struct {
		name, arch, file, machine string
		status                    int
		says                      string
	}{
		{"there is none", runtime.GOARCH, "", "", 404, "burstd has no burst-agent for " + runtime.GOARCH},
		{"ours", runtime.GOARCH, "burst-agent", runtime.GOARCH, 200, ""},
		{"a later one", runtime.GOARCH, "burst-agent", runtime.GOARCH, 200, ""},
		{"none for the other architecture", other, "", "", 404, "no burst-agent for " + other},
		{"one for the other architecture", other, "burst-agent-" + other, other, 200, ""},
		{"one that is for ours", other, "burst-agent-" + other, runtime.GOARCH, 500, "its log says why"},
		{"an architecture that no node has", "../../etc", "", "", 400, "is neither amd64 nor arm64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want []byte
			if tt.file != "" {
				want = w.program(tt.file, tt.machine, 200_000+len(tt.name))
			}
			got := w.fetch(tt.arch)
			if got.status != tt.status || tt.status != 200 && !strings.Contains(got.body, tt.says) {
				t.Fatalf("%d %.200q", got.status, got.body)
			}
			if tt.status != 200 {
				return
			}
			if c := w.munge.made[got.credential]; string(c.Payload) != payload("", "", got.body)[2:] {
				t.Errorf("signed: %q", c.Payload)
			}
			z, err := gzip.NewReader(strings.NewReader(got.body))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, want) {
				t.Errorf("%d bytes, want %d: %v", len(text), len(want), err)
			}
			before := w.files.all[tt.arch]
			if w.fetch(tt.arch); w.files.all[tt.arch] != before {
				t.Error("it is packed again")
			}
		})
	}
	if n := len(w.files.sending.to); n != 0 {
		t.Errorf("%d downloads are counted at the end", n)
	}
}

// TestFewDownloadsAtOnce: one node that takes nothing keeps no other waiting,
// many do, and those that go away make room.
func TestFewDownloadsAtOnce(t *testing.T) {
	w := newWorld(t, Limits{Burst: 1000})
	w.files.dirs = []string{t.TempDir()}
	w.program("burst-agent", runtime.GOARCH, 16<<20) // more than sockets hold
	var conns []net.Conn
	w.site.more = map[string]bool{}
	for i := range maxSending {
		instance := fmt.Sprintf("i-slow-%d", i)
		w.site.more[instance] = true
		body := `{"instance":"` + instance + `","arch":"` + runtime.GOARCH + `"}`
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
		req, err := http.NewRequest("POST", "http://"+w.addr+agent, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "MUNGE "+w.munge.mint(0, payload("POST", agent, body)))
		if err := req.Write(c); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // it is being sent
			t.Fatal(err)
		}
		if got := w.ask(request{"POST", agent, body, "own"}); got.status != 503 || got.retry == "" {
			t.Errorf("a second one for the same instance: %d %.200q", got.status, got.body)
		}
		if i > 0 {
			continue
		}
		if got := w.fetch(runtime.GOARCH); got.status != 200 {
			t.Errorf("beside a slow one: %d %.200q", got.status, got.body)
		}
	}
	if got := w.fetch(runtime.GOARCH); got.status != 503 || got.retry == "" || !strings.Contains(got.body, "others fetch the program now") {
		t.Errorf("one too many: %d %.200q", got.status, got.body)
	}
	if got := w.ask(request{"POST", notice, `{"instance":"i-1","kind":"rebalance"}`, "own"}); got.status != 200 {
		t.Errorf("a notice meanwhile: %+v", got)
	}
	for _, c := range conns {
		c.Close()
	}
	for end := time.Now().Add(20 * time.Second); w.fetch(runtime.GOARCH).status != 200; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no room after the others have gone")
		}
	}
}
