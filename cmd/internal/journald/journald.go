// Package journald is a handler of slog that writes to systemd's journal in its
// own protocol, so that what is logged can be found by its fields, as in
// journalctl BURST_NODE=c1.
package journald

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/journal"
)

// Socket is where journald listens.
const Socket = "/run/systemd/journal/socket"

// maxValue is the most bytes of one field: an entry with a few of them fits
// into a datagram of any kernel's default size.
const maxValue = 16 << 10

// Options are what a Handler needs.
type Options struct {
	Socket   string       // empty: Socket
	Level    slog.Leveler // nil: info
	Fallback slog.Handler // takes what journald does not, as while it restarts
}

// Handler is a slog.Handler. Each attribute becomes a field BURST_ and its key
// in capitals, and stands in the message too; those without a value are left out.
type Handler struct {
	Options
	conn   *net.UnixConn
	name   string // SYSLOG_IDENTIFIER
	prefix string // of keys in groups
	fields []field
}

type field struct{ key, value string }

var _ slog.Handler = (*Handler)(nil)

// ForStderr is a handler if this process's standard error is the journal, else nil.
func ForStderr(o Options) *Handler {
	if is, err := journal.StderrIsJournalStream(); err != nil || !is {
		return nil
	}
	h, err := New(o)
	if err != nil {
		return nil // the text goes to the journal all the same
	}
	return h
}

// New makes a handler. It does not need journald to listen yet.
func New(o Options) (*Handler, error) {
	if o.Socket == "" {
		o.Socket = Socket
	}
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	// Not connected to journald, so that it may restart.
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("making a socket for the journal: %w", err)
	}
	return &Handler{Options: o, conn: conn, name: filepath.Base(os.Args[0])}, nil
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.Level.Level() }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.fields = h.fields[:len(h.fields):len(h.fields)]
	for _, a := range attrs {
		next.fields = add(next.fields, h.prefix, a)
	}
	if h.Fallback != nil {
		next.Fallback = h.Fallback.WithAttrs(attrs)
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.prefix += name + "."
	}
	if h.Fallback != nil {
		next.Fallback = h.Fallback.WithGroup(name)
	}
	return &next
}

// add appends an attribute's fields: of a group, those of its parts.
func add(fields []field, prefix string, a slog.Attr) []field {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, part := range v.Group() {
			fields = add(fields, prefix, part)
		}
		return fields
	}
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().Format(time.RFC3339Nano)
	}
	if text == "" || a.Key == "" || a.Key == "job" && text == "0" {
		return fields
	}
	return append(fields, field{prefix + a.Key, text})
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	fields := h.fields[:len(h.fields):len(h.fields)]
	r.Attrs(func(a slog.Attr) bool {
		fields = add(fields, h.prefix, a)
		return true
	})
	_, err := h.conn.WriteToUnix(entry(h.name, r, fields), &net.UnixAddr{Name: h.Socket, Net: "unixgram"})
	if err != nil && h.Fallback != nil {
		return h.Fallback.Handle(ctx, r)
	}
	return err
}

// entry is one datagram of the protocol.
// https://systemd.io/JOURNAL_NATIVE_PROTOCOL/
func entry(name string, r slog.Record, fields []field) []byte {
	var b bytes.Buffer
	message := r.Message
	for _, f := range fields {
		if strings.ContainsAny(f.value, " \"=\n") {
			f.value = fmt.Sprintf("%q", f.value)
		}
		message += " " + f.key + "=" + f.value
	}
	put(&b, "MESSAGE", message)
	put(&b, "PRIORITY", priority(r.Level))
	put(&b, "SYSLOG_IDENTIFIER", name)
	for _, f := range fields {
		put(&b, fieldName(f.key), f.value)
	}
	return b.Bytes()
}

// put writes a field. With its length before it a value can hold anything, also
// what looks like another field.
func put(b *bytes.Buffer, name, value string) {
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "…"
	}
	b.WriteString(name)
	if !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
		b.WriteString("=" + value + "\n")
		return
	}
	b.WriteByte('\n')
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(value))))
	b.WriteString(value + "\n")
}

// fieldName makes a name of capitals, digits and underscores of a key.
func fieldName(key string) string {
	const most = 64 // bytes, journald's limit
	name := "BURST_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
	return name[:min(len(name), most)]
}

// priority is the level as syslog has it.
func priority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "3"
	case l >= slog.LevelWarn:
		return "4"
	case l >= slog.LevelInfo:
		return "6"
	}
	return "7"
}
