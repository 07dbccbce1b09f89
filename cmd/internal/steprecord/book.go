package steprecord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// Book keeps the record of a job in its folder.
type Book struct {
	Dir     string // the checkpoint directory
	Cluster string
	Ctld    string // as Ctld says; empty: not known
	Job     string // as its folder has it: "17", or "17_3" for a task of an array
	Attempt int
	Script  string    // the text
	Began   time.Time // when the attempt's batch script did, by this host's clock; zero: not known
	// Identity tells the job's records from an earlier one's.
	Identity ckpt.Identity
	Ends     map[int]jobword.Evicted // what burstd says of attempts before
}

func (b Book) fileOf(attempt int) string { return fmt.Sprintf("steps-%d.json", attempt) }

// Change reads the attempt's record, has it changed and writes it, while no other
// step of the job does.
func (b Book) Change(ctx context.Context, with func(*Record) error) error {
	root, err := ckpt.OpenJob(b.Dir, b.Job)
	if err != nil {
		return err
	}
	defer root.Close()
	lock, err := b.lock(ctx, root)
	if err != nil {
		return err
	}
	defer lock.Close()
	r, begun, err := b.read(root)
	if err != nil {
		return err
	}
	if !begun {
		if err := putAway(root, b.fileOf(b.Attempt)); err != nil {
			return err
		}
	}
	if r.Ctld == "" {
		r.Ctld = b.Ctld
	}
	if err := with(&r); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(root, b.fileOf(b.Attempt), append(text, '\n'))
}

// At is the record of one of the job's attempts, and whether it has one.
func (b Book) At(attempt int) (r Record, there bool, err error) {
	root, err := ckpt.ViewJob(b.Dir, b.Job)
	if err != nil {
		return Record{}, false, err
	}
	defer root.Close()
	r, _, err = readRecord(root, b.fileOf(attempt), maxRecord)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !b.ours(r) {
		return Record{}, false, nil
	}
	return r, err == nil, err
}

// Peek is the attempt's record as it would begin with it, and whether the job has a
// folder there. It writes nothing.
func (b Book) Peek() (r Record, there bool, err error) {
	root, err := ckpt.ViewJob(b.Dir, b.Job)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	defer root.Close()
	r, _, err = b.read(root)
	return r, err == nil, err
}

// clockStep is how far a node's clock may be set within an attempt: when its batch
// shell began is reckoned from the boot, and moves with it.
const clockStep = 5 * time.Minute

// read is the attempt's record if it has begun one, or a new one with what the last
// one before knew.
func (b Book) read(root *os.Root) (r Record, begun bool, err error) {
	fresh := Record{Cluster: b.Cluster, Ctld: b.Ctld, Script: Sum(b.Script), Attempt: b.Attempt, Began: time.Now().UTC(), Submitted: b.Identity.Submitted}
	r, _, err = readRecord(root, b.fileOf(b.Attempt), maxRecord)
	switch {
	case err == nil && b.ours(r) && !r.Began.Before(b.Began.Add(-clockStep)):
		return r, true, nil
	case err == nil || errors.Is(err, fs.ErrNotExist):
	default:
		return Record{}, false, err
	}
	for a := b.Attempt - 1; a >= 0; a-- {
		r, _, err := readRecord(root, b.fileOf(a), maxRecord)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it never began a step
		}
		if err != nil {
			return Record{}, false, err
		}
		if b.ours(r) {
			fresh.Steps, fresh.Sets = r.Steps, r.Sets
			for i := range fresh.Steps {
				fresh.Steps[i].settle(b.Ends)
			}
		}
		break
	}
	return fresh, false, nil
}

// Notes returns what writes down how far a step is. That it cannot is said once.
func (b Book) Notes(ctx context.Context, say func(string, ...any)) func(Step) {
	var told sync.Once
	return func(e Step) {
		err := b.Change(context.WithoutCancel(ctx), func(r *Record) error {
			if i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == e.Name }); i >= 0 {
				r.Steps[i] = e
			}
			return nil
		})
		if err != nil {
			told.Do(func() { say("what became of step %s is not recorded: %v", e.Name, err) })
		}
	}
}

// settle counts an attempt that ended without a word, unless burstd knows when.
func (e *Step) settle(ends map[int]jobword.Evicted) {
	end, known := ends[e.Attempt]
	if known {
		e.Behind = end.Iterations
	}
	switch {
	case !e.Ended.IsZero():
	case known && end.Died.After(e.Began):
		e.Ended = end.Died.UTC()
	default:
		e.LostUnknown++
	}
}

// ours says whether a record is this job's, and not an earlier one's of the same id.
func (b Book) ours(r Record) bool {
	return r.Script == Sum(b.Script) && r.Cluster == b.Cluster && !b.Identity.Earlier(ckpt.Origin{Submitted: r.Submitted}, r.Began)
}
