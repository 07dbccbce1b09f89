package journald

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// journal is a journald of the test's own.
type fakeJournal struct {
	*testing.T
	*net.UnixConn
}

func listen(t *testing.T, socket string) fakeJournal {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return fakeJournal{t, conn}
}

// next reads an entry as journald does.
func (j fakeJournal) next() map[string]string {
	j.Helper()
	if err := j.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		j.Fatal(err)
	}
	b := make([]byte, 1<<20)
	n, err := j.Read(b)
	if err != nil {
		j.Fatal(err)
	}
	fields, err := parse(b[:n])
	if err != nil {
		j.Fatal(err)
	}
	return fields
}

func parse(b []byte) (map[string]string, error) {
	all := map[string]string{}
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return nil, fmt.Errorf("a line without an end: %q", b)
		}
		line := string(b[:end])
		b = b[end+1:]
		name, value, plain := strings.Cut(line, "=")
		if !plain {
			if len(b) < 8 {
				return nil, fmt.Errorf("%s has no length", name)
			}
			n := binary.LittleEndian.Uint64(b)
			if b = b[8:]; n >= uint64(len(b)) || b[n] != '\n' {
				return nil, fmt.Errorf("%s has a wrong length %d", name, n)
			}
			value, b = string(b[:n]), b[n+1:]
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s comes twice", name)
		}
		all[name] = value
	}
	return all, nil
}

func TestFields(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	j := listen(t, socket)
	h, err := New(Options{Socket: socket, Level: slog.LevelDebug})
	if err != nil {
		t.Fatal(err)
	}
	h.name = "burstd"
	log := slog.New(h)
	for _, tt := range []struct {
		name string
		log  func()
		want map[string]string
	}{
		{"an event", func() {
			log.Info("registered", "event", "up", "node", "c1", "instance", "i-1", "pool", "p", "job", uint32(7))
		}, map[string]string{"MESSAGE": "registered event=up node=c1 instance=i-1 pool=p job=7", "PRIORITY": "6", "BURST_EVENT": "up",
			"BURST_NODE": "c1", "BURST_INSTANCE": "i-1", "BURST_POOL": "p", "BURST_JOB": "7"}},
		{"of no node and no job", func() { log.Warn("x", "event", "no-capacity", "node", "", "job", uint32(0)) },
			map[string]string{"MESSAGE": "x event=no-capacity", "PRIORITY": "4", "BURST_EVENT": "no-capacity"}},
		{"an error", func() {
			log.Error("no answer", "provider", "east", "error", errors.New("two\nlines"), "in", 3*time.Second)
		}, map[string]string{"MESSAGE": `no answer provider=east error="two\nlines" in=3s`, "PRIORITY": "3", "BURST_PROVIDER": "east", "BURST_ERROR": "two\nlines", "BURST_IN": "3s"}},
		{"what looks like a field", func() { log.Info("a\nPRIORITY=0", "node", "c1\nMESSAGE=x") },
			map[string]string{"MESSAGE": "a\nPRIORITY=0 node=\"c1\\nMESSAGE=x\"", "PRIORITY": "6", "BURST_NODE": "c1\nMESSAGE=x"}},
		{"with attributes and groups", func() {
			log.With("job", 7).WithGroup("g").Debug("x", slog.Group("a", "b-c", true), "t", time.Unix(0, 0).UTC())
		}, map[string]string{"MESSAGE": "x job=7 g.a.b-c=true g.t=1970-01-01T00:00:00Z", "PRIORITY": "7", "BURST_JOB": "7", "BURST_G_A_B_C": "true", "BURST_G_T": "1970-01-01T00:00:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.log()
			tt.want["SYSLOG_IDENTIFIER"] = "burstd"
			if d := cmp.Diff(tt.want, j.next()); d != "" {
				t.Error(d)
			}
		})
	}
	log.Info("long", "text", strings.Repeat("ü", 1<<20))
	if got := j.next(); len(got["BURST_TEXT"]) > maxValue+4 || !strings.HasSuffix(got["BURST_TEXT"], "ü…") || len(got["MESSAGE"]) > maxValue+4 {
		t.Errorf("a long value has %d bytes", len(got["BURST_TEXT"]))
	}
	quiet, err := New(Options{Socket: socket})
	if err != nil || quiet.Enabled(t.Context(), slog.LevelDebug) || !quiet.Enabled(t.Context(), slog.LevelInfo) {
		t.Errorf("the level is not info: %v", err)
	}
}

// TestJournaldRestarts: what it does not take is written elsewhere, and it is
// found again.
func TestJournaldRestarts(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	var text bytes.Buffer
	h, err := New(Options{Socket: socket, Fallback: slog.NewTextHandler(&text, nil)})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(h).With("pool", "p")
	log.Info("nobody listens", "node", "c1")
	if got := text.String(); !strings.Contains(got, `msg="nobody listens" pool=p node=c1`) {
		t.Errorf("it is lost: %q", got)
	}
	j := listen(t, socket)
	log.Info("it is back")
	if got := j.next()["BURST_POOL"]; got != "p" {
		t.Errorf("BURST_POOL is %q", got)
	}
	if strings.Contains(text.String(), "it is back") {
		t.Error("it is written twice")
	}
}

// TestNotTheJournal: a terminal, a file or a pipe gets text.
func TestNotTheJournal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "1:2")
	if ForStderr(Options{}) != nil {
		t.Error("standard error is taken for the journal")
	}
}

// FuzzEntry: no text can add a field, or break another one.
func FuzzEntry(f *testing.F) {
	f.Add("message", "node", "c1")
	f.Add("a\nb=c", "é=\n", "x\n\x00\x01\x02\xff\n")
	f.Fuzz(func(t *testing.T, message, key, value string) {
		fields := add(nil, "", slog.String(key, value))
		got, err := parse(entry("burstd", slog.Record{Message: message}, fields))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 3+len(fields) || got["PRIORITY"] != "6" || got["SYSLOG_IDENTIFIER"] != "burstd" {
			t.Fatalf("%d fields: %q", len(got), got)
		}
		if len(value) < maxValue && len(fields) == 1 && got[fieldName(key)] != value {
			t.Fatalf("%q has become %q", value, got[fieldName(key)])
		}
		for name := range got {
			if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || len(name) > 64 || !slices.Contains([]string{"MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER"}, name) && !strings.HasPrefix(name, "BURST_") {
				t.Fatalf("%q is no name of a field of ours", name)
			}
		}
	})
}
