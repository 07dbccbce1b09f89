package daemon

import (
	"crypto/ed25519"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// TestPoolsThatCannotBeSetUp: what burstd cannot read it says at its start, not first when
// a node waits for it, and the engine is told, until it can be read.
func TestPoolsThatCannotBeSetUp(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "id")
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := gossh.MarshalPrivateKey(private, "")
	if err == nil {
		err = os.WriteFile(key, pem.EncodeToMemory(block), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		w := newBootWorld()
		var p config.Pool
		p.Power.Name, p.SSH = "metal", &config.SSH{Auth: ssh.Auth{KeyFile: filepath.Join(dir, "none")}}
		p.Boot.MungeKey = "ssh:" + filepath.Join(dir, "munge.key")
		s := &setups{engine: w, pools: map[source]config.Pool{{"metal", "lon"}: p}, log: slog.New(slog.NewTextHandler(&log, nil))}
		go s.ready(t.Context())
		told := func(want string) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := len(w.unready); n == 0 || !strings.Contains(w.unready[n-1], want) || want == "" && w.unready[n-1] != "metal at lon: " {
				t.Errorf("the engine was told %q, want at last %q", w.unready, want)
			}
		}
		told("/none: no such file")
		if err := os.Rename(key, filepath.Join(dir, "none")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checkAgain)
		told("/munge.key: no such file")
		if err := os.WriteFile(filepath.Join(dir, "munge.key"), []byte("k"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checkAgain)
		told("")
		for _, want := range []string{"/none: no such file", "/munge.key: no such file"} {
			if n := strings.Count(log.String(), want); n != 1 {
				t.Errorf("the log has %q %d times:\n%s", want, n, log.String())
			}
		}
	})
}
