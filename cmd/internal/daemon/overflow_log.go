package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/overflow"
)

func tasksOf(dec overflow.Decision) []int {
	tasks := make([]int, len(dec.Keys))
	for i, k := range dec.Keys {
		tasks[i] = k.Task
	}
	return tasks
}

// change is what becomes of rows.
type change struct {
	state string // "": as it is
	end   string // why it ends; "": it does not
	kind  string // of the event that tells of it; "": none
}

// write writes the rows of a decision, and then tells of them.
func (o *overflowing) write(ctx context.Context, dec overflow.Decision, c change) error {
	now := time.Now()
	var rows []store.Overflowed
	for _, k := range dec.Keys {
		row, have := o.rows[k]
		if !have {
			w := dec.Job
			row = store.Overflowed{Record: overflow.Record{Key: k, UID: w.UID, Submitted: w.Submitted, Restarts: w.Restarts, Rule: dec.Rule, Was: dec.Was, To: dec.To, At: now}, User: w.User, Why: dec.Why}
			if old := o.overflows.last(askedOf(dec)).row; old.Rule == dec.Rule && slices.Equal(old.To, dec.To) && slices.Equal(old.Was, dec.Was) {
				row.At = old.At
			}
		}
		if c.state != "" {
			row.State = c.state
		}
		if c.state == overflow.Taking {
			row.TakenFor = dec.Why
		}
		if c.end != "" {
			row.Ended, row.EndedWhy = now, c.end
		}
		rows = append(rows, row)
	}
	if err := o.store.PutOverflows(ctx, rows); err != nil {
		o.rows = nil // they may be written
		return err
	}
	for _, row := range rows {
		o.rows[row.Key] = row
		if c.end != "" {
			delete(o.rows, row.Key)
			delete(o.ends, row.Key)
		}
	}
	o.made = time.Now()
	if c.kind == "" {
		return nil
	}
	why := dec.Why
	if c.kind == "overflow" {
		why = rows[0].Why
	}
	return o.journal.CommitFT(ctx, ft.Change{Events: []ft.Event{o.event(dec, c.kind, why)}})
}

// event tells of a job, or of tasks of an array.
func (o *overflowing) event(dec overflow.Decision, kind, why string) ft.Event {
	now, id := time.Now(), dec.Keys[0].Job
	text := fmt.Sprintf("job %s: %s", jobName(dec.Keys), why)
	switch kind {
	case "overflow":
		return ft.Event{Time: now, Kind: "overflow", Job: id, Text: text}
	case "overflow-back":
		return ft.Event{Time: now, Kind: "overflow-back", Job: id, Text: text}
	}
	return ft.Event{Time: now, Kind: "overflow-left", Job: id, Text: text}
}

// jobName is "7", "7_3" or "7_[3,4]".
func jobName(keys []overflow.Key) string {
	if len(keys) == 1 {
		return keys[0].String()
	}
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = fmt.Sprint(k.Task)
	}
	return fmt.Sprintf("%d_[%s]", keys[0].Job, strings.Join(words, ","))
}
