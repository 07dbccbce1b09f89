package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// What goes wrong a thousand times at once is logged calmLines times within
// calmWindow, and then summed up in one line.
const (
	calmLines  = 20
	calmWindow = 10 * time.Second
)

// calm is a handler that bounds how much a storm writes. Lines are alike if they
// are of one kind of events or, without one, have the same message.
type calm struct {
	slog.Handler
	*storms
}

type storms struct {
	mu   sync.Mutex
	open map[string]*storm // by level and kind; each goes after calmWindow
}

type storm struct{ lines int }

func newCalm(next slog.Handler) calm { return calm{next, &storms{open: map[string]*storm{}}} }

// WithAttrs implements slog.Handler.
func (h calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calm{h.Handler.WithAttrs(attrs), h.storms}
}

// WithGroup implements slog.Handler.
func (h calm) WithGroup(name string) slog.Handler {
	return calm{h.Handler.WithGroup(name), h.storms}
}

// Handle implements slog.Handler.
func (h calm) Handle(ctx context.Context, r slog.Record) error {
	kind := eventOf(r)
	key := r.Level.String() + " " + kind
	if kind == "" {
		key += r.Message
	}
	h.mu.Lock()
	s := h.open[key]
	if s == nil {
		s = &storm{}
		h.open[key] = s
		time.AfterFunc(calmWindow, func() { h.sumUp(key, kind, r) })
	}
	s.lines++
	tell := s.lines <= calmLines
	h.mu.Unlock()
	if !tell {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// sumUp ends the window that a line has opened.
func (h calm) sumUp(key, kind string, first slog.Record) {
	h.mu.Lock()
	more := h.open[key].lines - calmLines
	delete(h.open, key)
	h.mu.Unlock()
	if more <= 0 {
		return
	}
	sum := slog.NewRecord(time.Now(), first.Level, fmt.Sprintf("and %d more: %s", more, first.Message), 0)
	if kind != "" {
		sum.Message = fmt.Sprintf("and %d more of this kind; `burst events` has them all", more)
		sum.AddAttrs(slog.String("event", kind))
	}
	h.Handler.Handle(context.Background(), sum) // there is nobody to tell of an error
}

// eventOf is the kind of event that a line is about.
func eventOf(r slog.Record) (kind string) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" {
			kind = a.Value.String()
		}
		return kind == ""
	})
	return kind
}
