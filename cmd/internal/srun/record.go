package srun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/directive"
)

// What is known of a job's steps is a file for each attempt, steps-<n>.json in
// the job's folder. An attempt begins with a copy of the one before, so that what an
// attempt writes after it was cut off is not read by any later one.

// entry is one step of a job.
type entry struct {
	Name    string    `json:"name"` // "0", "1", … in the order of their first start, or that of --once
	Args    []string  `json:"args"` // srun's
	Program string    `json:"program"`
	Dir     string    `json:"dir"`     // that it was started in
	Attempt int       `json:"attempt"` // that ran it last
	Began   time.Time `json:"began"`   // there
	Ended   time.Time `json:"ended,omitzero"`
	Done    bool      `json:"done"` // it has ended by itself with exit code 0
	// KeepAfter says that its generations stay even then.
	KeepAfter bool `json:"keep_after,omitempty"`
	// Settings are those that its generations were made by, of whoever: the site may
	// say another thing when they are needed, or nothing.
	Settings []directive.Setting `json:"settings,omitempty"`
	// Components of the heterogeneous job are those that it runs on under a method; none:
	// the job is none, or the step is not protected.
	Components []int `json:"components,omitempty"`
	Runs       bool  `json:"runs,omitempty"` // such a part has begun, and has not ended by itself
	// Behind is how many iterations that attempt has lost, as burstd noted; 0: none, or
	// it is not known.
	Behind int64 `json:"behind,omitempty"`
	stats
}

// stats are summed over the attempts of a step.
type stats struct {
	Ran         time.Duration `json:"ran_ns"`
	Checkpoints int           `json:"checkpoints"`
	Writing     time.Duration `json:"checkpointing_ns"`
	Restarts    int           `json:"restarts"`
	Lost        time.Duration `json:"lost_ns"`
	LostUnknown int           `json:"lost_unknown"` // attempts that ended without a word, and of which burstd has none
	// LostIterations are the iterations of that work, where the program counts them.
	LostIterations int64 `json:"lost_iterations,omitempty"`
}

// record is the file.
type record struct {
	Cluster string `json:"cluster,omitempty"`
	// Ctld is the cluster's controller: names of clusters are given twice. Empty: not
	// known; then nothing proves that a job of this cluster has left this.
	Ctld    string    `json:"slurmctld,omitempty"`
	Script  string    `json:"script"` // SHA-256 in hex: ids of jobs are given again, and a requeue changes no script
	Attempt int       `json:"attempt"`
	Began   time.Time `json:"began"`
	// Submitted is what Slurm said of that in the attempt; zero: not known.
	Submitted time.Time `json:"submitted,omitzero"`
	Steps     []entry   `json:"steps"`
	Sets      []chosen  `json:"sets,omitempty"` // by attempts, the oldest first
}

// claim finds the step that a command line is in this attempt, or makes a new one:
// that of the name; else the first with the same arguments in the same folder that no
// other has claimed. Arguments may change with the time of day: if a single step of the
// program in that folder is not done, it is that. To take another step's checkpoints
// would be worse than to begin anew. It returns its index, and what it was before.
func (r *record) claim(e entry, once string) (index int, was entry) {
	free := func(s entry) bool { return s.Attempt < r.Attempt && !named(s) }
	i := -1
	switch {
	case once != "":
		i = slices.IndexFunc(r.Steps, func(s entry) bool { return s.Name == once })
	default:
		i = slices.IndexFunc(r.Steps, func(s entry) bool { return free(s) && s.Dir == e.Dir && slices.Equal(s.Args, e.Args) })
		if i < 0 && e.Program != "" {
			i = only(r.Steps, func(s entry) bool { return free(s) && !s.Done && s.Dir == e.Dir && s.Program == e.Program })
		}
	}
	if i < 0 {
		n := 0
		for _, s := range r.Steps {
			if !named(s) {
				n++
			}
		}
		e.Name = once
		if once == "" {
			e.Name = strconv.Itoa(n)
		}
		e.Attempt = r.Attempt
		r.Steps = append(r.Steps, e)
		return len(r.Steps) - 1, entry{}
	}
	s := &r.Steps[i]
	was = *s
	if !s.Done || once == "" {
		s.Done, s.Ended, s.Behind = false, time.Time{}, 0
		s.Args, s.Program, s.Dir, s.Attempt, s.Began = e.Args, e.Program, e.Dir, r.Attempt, e.Began
		s.Components, s.Runs = nil, false
		if len(e.Settings) > 0 {
			s.Settings = e.Settings
		}
	}
	return i, was
}

// only is the index of the one step that is meant; -1: there is none, or several.
func only(all []entry, meant func(entry) bool) int {
	i := slices.IndexFunc(all, meant)
	if i >= 0 && slices.ContainsFunc(all[i+1:], meant) {
		return -1
	}
	return i
}

// named says whether a step has a name of --once.
func named(e entry) bool { _, err := strconv.Atoi(e.Name); return err != nil }

// book keeps the record of a job in its folder.
type book struct {
	dir     string
	cluster string
	ctld    string // as Ctld says; empty: not known
	job     string
	attempt int
	script  string    // the text
	began   time.Time // when the attempt's batch script did, by this host's clock; zero: not known
	// identity tells the job's records from an earlier one's.
	identity ckpt.Identity
	ends     map[int]jobword.Evicted
}

// book is the job's in a checkpoint directory.
func (k known) book(dir string) book {
	return book{dir: dir, cluster: k.job.Cluster, ctld: k.ctld, job: k.job.Folder(), attempt: k.job.Attempt, script: k.script, began: k.began, identity: k.identity(), ends: k.word.Evicted}
}

func (b book) fileOf(attempt int) string { return fmt.Sprintf("steps-%d.json", attempt) }

// change reads the attempt's record, has it changed and writes it, while no other
// step of the job does.
func (b book) change(ctx context.Context, with func(*record) error) error {
	root, err := ckpt.OpenJob(b.dir, b.job)
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
		if err := putAway(root, b.fileOf(b.attempt)); err != nil {
			return err
		}
	}
	if r.Ctld == "" {
		r.Ctld = b.ctld
	}
	if err := with(&r); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(root, b.fileOf(b.attempt), append(text, '\n'))
}

// peek is the attempt's record as it would begin with it, and whether the job has a
// folder there. It writes nothing.
func (b book) peek() (r record, there bool, err error) {
	root, err := ckpt.ViewJob(b.dir, b.job)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, err
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
func (b book) read(root *os.Root) (r record, begun bool, err error) {
	fresh := record{Cluster: b.cluster, Ctld: b.ctld, Script: sum(b.script), Attempt: b.attempt, Began: time.Now().UTC(), Submitted: b.identity.Submitted}
	r, _, err = readRecord(root, b.fileOf(b.attempt), maxRecord)
	switch {
	case err == nil && b.ours(r) && !r.Began.Before(b.began.Add(-clockStep)):
		return r, true, nil
	case err == nil || errors.Is(err, fs.ErrNotExist):
	default:
		return record{}, false, err
	}
	for a := b.attempt - 1; a >= 0; a-- {
		r, _, err := readRecord(root, b.fileOf(a), maxRecord)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it never began a step
		}
		if err != nil {
			return record{}, false, err
		}
		if b.ours(r) {
			fresh.Steps, fresh.Sets = r.Steps, r.Sets
			for i := range fresh.Steps {
				fresh.Steps[i].settle(b.ends)
			}
		}
		break
	}
	return fresh, false, nil
}

// settle counts an attempt that ended without a word, unless burstd knows when.
func (e *entry) settle(ends map[int]jobword.Evicted) {
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
func (b book) ours(r record) bool {
	return r.Script == sum(b.script) && r.Cluster == b.cluster && !b.identity.Earlier(ckpt.Origin{Submitted: r.Submitted}, r.Began)
}

// lock waits for the job's lock. On a file system without locks it is done without.
func (b book) lock(ctx context.Context, root *os.Root) (*os.File, error) {
	f, err := root.OpenFile(".steps.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	for {
		err := flock(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || !pause(ctx, 20*time.Millisecond) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
		}
	}
}

// flock takes a file's lock for as long as it is open, where there are locks;
// EWOULDBLOCK: another has it.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EINVAL):
			return nil
		}
		return err
	}
}

// lockTime is how long another step of the job may hold the lock: it writes a
// small file.
const lockTime = 30 * time.Second
