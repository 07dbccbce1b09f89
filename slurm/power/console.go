package power

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/burst-hpc/burst/cloud"
)

// What fetching consoles may take: many instances may fail at once, and each
// that waits for its console costs money.
const (
	maxConsoles = 4                // calls under way at once
	consoleWait = time.Minute      // of an instance, after which it ends without
	consoleText = 4 << 10          // bytes that are kept
	consoleCall = 30 * time.Second // of one call
)

// keepConsoles fetches the consoles of failed instances and says which of a
// provider's have to wait for that before they end. A crash meanwhile costs at
// most a second call.
func (e *Engine) keepConsoles(ctx context.Context, name string, ids []string) (later map[string]bool) {
	source, ok := e.providers[name].(cloud.Consoler)
	if !ok {
		return nil
	}
	later = map[string]bool{}
	for _, id := range ids {
		if !e.mem.instances[id].Console {
			continue
		}
		since, seen := e.consoles[id]
		if !seen {
			since = time.Now()
			e.consoles[id] = since
		}
		later[id] = time.Since(since) < consoleWait
		what := "console of " + id
		if e.flying[what] || e.fetching >= maxConsoles || !later[id] {
			continue
		}
		e.flying[what] = true
		e.fetching++
		rec := e.mem.instances[id]
		e.beside(ctx, func(ctx context.Context) func(context.Context) {
			ctx, cancel := context.WithTimeout(ctx, consoleCall)
			defer cancel()
			text, err := source.Console(ctx, id)
			return func(ctx context.Context) {
				delete(e.flying, what)
				e.fetching--
				e.fetched(ctx, rec, text, err)
			}
		})
	}
	return later
}

// fetched keeps a console as an event, and lets its instance end if it is still there.
func (e *Engine) fetched(ctx context.Context, was Instance, text string, err error) {
	if ctx.Err() != nil {
		return
	}
	var c Change
	if i, open := e.mem.instances[was.ID]; open {
		i.Console = false
		c.Instances = append(c.Instances, i)
	}
	if err != nil {
		text = fmt.Sprintf("it could not be fetched: %v", err)
	}
	if text = tail(text, consoleText); text != "" {
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: "console", Node: was.Assigned, Instance: was.ID, Pool: was.Pool, Text: text})
	}
	if err := e.commit(ctx, c); err != nil {
		e.log.Warn("a console could not be written; it is fetched again", "instance", was.ID, "error", err)
	}
}

// tail is the end of a text, from the beginning of a line where there is one,
// without what is no text.
func tail(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\r' || r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	for !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = cmp.Or(rest, text)
	}
	return text
}
