package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/store"
)

// TestAJournalOfANewerBurstd is exit code 2, which the unit does not start again, and says what to do.
func TestAJournalOfANewerBurstd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := s.config.Endpoint.DB()
	st, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{0, 0, 3, 231}, 60); err != nil { // user_version, of SQLite's format
		t.Fatal(err)
	}
	file.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	code := cli.Report(&said, Run(t.Context(), Options{Config: s.config, Version: "1", Log: slog.New(slog.DiscardHandler)}))
	if code != cli.Usage || !strings.Contains(said.String(), "it is 999, known are ") || !strings.Contains(said.String(), "hint: install the later burstd again") {
		t.Errorf("exit code %d: %s", code, &said)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the journal is changed: %v", err)
	}
}
