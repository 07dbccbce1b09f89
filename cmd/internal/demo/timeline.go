package demo

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// entry is one thing that happened. Entries that differ in their nodes alone
// are one line.
type entry struct {
	at    time.Time
	who   string
	nodes []string
	what  string // with %s where the nodes stand, if there are any
}

// text is what the entry says; the notes of others may hold any character.
func (e entry) text() string {
	if len(e.nodes) == 0 {
		return e.what
	}
	return strings.Replace(e.what, "%s", hostlist.FoldSorted(e.nodes), 1)
}

// merge sorts entries by time and joins those that differ in their nodes alone.
func merge(all []entry) []entry {
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	var merged []entry
next:
	for _, e := range all {
		if len(e.nodes) > 0 {
			for i := range merged {
				if m := &merged[i]; m.who == e.who && m.what == e.what && len(m.nodes) > 0 {
					m.nodes = append(slices.Clone(m.nodes), e.nodes...)
					continue next
				}
			}
		}
		merged = append(merged, e)
	}
	return merged
}

// ofEvent says what an event of burstd means to who watches; ok is false for
// a step that other entries imply.
func ofEvent(e api.Event) (entry, bool) {
	out := entry{at: e.Time, who: "burst"}
	switch e.Kind {
	case "instance", "terminate", "notice":
		return out, false
	case "order":
		kind, nodes, _ := strings.Cut(e.Text, " ")
		out.who = "slurm"
		switch kind {
		case api.Resume:
			out.what = "asks for " + nodes
		case api.Suspend:
			out.what = "powers down " + nodes
		default:
			out.what = e.Text
		}
	case "launch":
		out.what = "launches " + e.Text
	case "up":
		out.who, out.nodes, out.what = "node", []string{e.Node}, "%s registered"
	case "gone":
		out.who, out.nodes, out.what = "cloud", []string{e.Node}, "the instance behind %s is gone"
	case "evicted":
		if e.Text == "requeued" {
			return out, false // the event before said it
		}
		out.what = fmt.Sprintf("job %d: %s", e.Job, e.Text)
	case "requeue":
		out.what = fmt.Sprintf("job %d: %s", e.Job, e.Text)
	case "evict":
		out.what = e.Text // it names the job; the node was named before
	default:
		out.what = e.Text
		if e.Node != "" {
			out.what = e.Node + ": " + e.Text
		}
	}
	return out, true
}

// ofHeat says what a line of heat's means; progress has a bar of its own.
func ofHeat(h heatLine, at time.Time) (entry, bool) {
	out := entry{at: at, who: "heat"}
	switch h.kind {
	case heatBegins:
		out.what = fmt.Sprintf("computes from iteration %d on", h.iteration)
	case heatCheckpoint:
		out.what = fmt.Sprintf("writes its checkpoint at iteration %d and leaves", h.iteration)
	case heatDone:
		out.what = fmt.Sprintf("is done after iteration %d, checksum %s", h.iteration, h.checksum)
	default:
		return out, false
	}
	return out, true
}

// ofJob says what a change of a job's state means.
func ofJob(before, now slurm.Job, at time.Time) (entry, bool) {
	out := entry{at: at, who: "job"}
	if before.State == now.State && before.Restarts == now.Restarts {
		return out, false
	}
	again := ""
	if now.Restarts > 0 {
		again = "again "
	}
	switch now.State {
	case "RUNNING":
		out.what = fmt.Sprintf("%s runs %son %s", title(now), again, now.Nodes)
	case "COMPLETED":
		out.what = title(now) + " has completed"
	default:
		return out, false
	}
	return out, true
}

// title is a job's id, and its name in brackets.
func title(j slurm.Job) string { return fmt.Sprintf("%d (%s)", j.ID, j.Name) }

const (
	// holdBack is how long an entry waits for others that belong before it or into it.
	holdBack = 500 * time.Millisecond
	barWidth = 40
)

// timeline prints entries in their order, and on a terminal a bar below them.
type timeline struct {
	out   io.Writer
	tty   bool
	began time.Time
	queue []entry
	bar   string // as it stands on the terminal
	err   error  // the first of writing
}

func (t *timeline) add(e entry, ok bool) {
	if ok {
		t.queue = append(t.queue, e)
	}
}

// flush prints what has waited long enough.
func (t *timeline) flush(now time.Time) {
	if len(t.queue) == 0 {
		return
	}
	oldest := slices.MinFunc(t.queue, func(a, b entry) int { return a.at.Compare(b.at) })
	if now.Sub(oldest.at) >= holdBack {
		t.flushAll()
	}
}

func (t *timeline) flushAll() {
	for _, e := range merge(t.queue) {
		t.print(t.line(e))
	}
	t.queue = nil
}

func (t *timeline) line(e entry) string {
	return fmt.Sprintf("%6.1f s  %-6s %s", max(0, e.at.Sub(t.began).Seconds()), e.who, e.text())
}

// print writes lines above the bar.
func (t *timeline) print(text string) {
	bar := t.bar
	t.setBar("")
	t.write(text + "\n")
	t.setBar(bar)
}

// progress draws the bar, on a terminal only.
func (t *timeline) progress(done, all int64) {
	if !t.tty {
		return
	}
	full := int(barWidth * min(done, all) / max(all, 1))
	t.setBar(fmt.Sprintf("          heat   [%s%s] %d of %d", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, all))
}

func (t *timeline) setBar(bar string) {
	if bar == t.bar {
		return
	}
	t.bar = bar
	t.write("\r\x1b[K" + bar)
}

func (t *timeline) write(text string) {
	_, err := io.WriteString(t.out, text)
	t.err = cmp.Or(t.err, err)
}
