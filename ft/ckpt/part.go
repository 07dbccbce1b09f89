package ckpt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"time"
)

// A generation's way, with what a kill leaves at each point:
//
//	Begin   lock, mkdir gen-7.part         unfinished: deleted when the lock is free
//	        the method writes into it      unfinished
//	Commit  hash and fsync all files       unfinished
//	        manifest, its sum, fsync       unfinished: the name decides
//	        rename to gen-7                whole
//	        fsync of the attempt's folder  whole, and after a power cut too
//
// What fails on the way is deleted, and nothing that was there before is touched.

// Part is a generation that is being written. The attempt's lock is held until
// Commit or Abandon.
type Part struct {
	// Dir is the folder, there and empty, that a method writes into; absolute.
	Dir   string
	f     *Folder
	id    ID
	need  int64
	began time.Time
	lock  *os.File
	over  bool
	whole *Generation // it has its name, which may not outlive a power cut yet
	ours  []string    // names of ours that a Commit which failed may have left
}

// About is what Commit is told of a generation.
type About struct {
	Made
	Method  string
	Nodes   int
	Stopped bool // the step was ended with it
	// Together: as in the manifest.
	Together bool
	Machine  Machine
}

// Begin makes room for one generation more, and its folder. expect is how many
// bytes it will have by the method's guess; 0: not known. What the last ones had counts
// too. Errors: ErrSuperseded, ErrBusy, and a *SpaceError before anything is written.
func (f *Folder) Begin(ctx context.Context, expect int64) (*Part, error) {
	if f.view {
		return nil, fmt.Errorf("checkpoint folder %s is open to be looked at", f.root.Name())
	}
	if err := f.superseded(); err != nil {
		return nil, err
	}
	lock, err := f.lockAttempt(ctx)
	if err != nil {
		return nil, fmt.Errorf("checkpoint folder %s: %w", f.root.Name(), f.explain(err, expect))
	}
	p := &Part{f: f, lock: lock, began: time.Now()}
	if err := p.begin(ctx, expect); err != nil {
		return nil, errors.Join(fmt.Errorf("beginning a checkpoint: %w", f.explain(err, p.need)), lock.Close())
	}
	return p, nil
}

func (p *Part) begin(ctx context.Context, expect int64) error {
	f := p.f
	ids, top, err := f.ids()
	if err != nil {
		return err
	}
	p.need = max(expect, f.expected(ids))
	if err := f.room(p.need); err != nil {
		perr := f.makeRoom(ctx)
		if err := f.room(p.need); err != nil {
			return errors.Join(err, perr)
		}
	}
	// Without locks another process may take the same number.
	for p.id = (ID{f.o.Attempt, top + 1}); ; p.id.N++ {
		err := f.root.Mkdir(p.name(), 0o700)
		if errors.Is(err, fs.ErrExist) && p.id.N < top+100 {
			continue
		}
		if err != nil {
			return err
		}
		p.Dir = absOf(f.root, p.name())
		return f.fault("part made")
	}
}

// ids are those of all whole generations, newest first, and the highest number
// that was ever given. No file is looked at: a notice may have come.
func (f *Folder) ids() (whole []ID, top int, err error) {
	attempts, err := f.attempts()
	if err != nil {
		return nil, 0, err
	}
	for _, a := range attempts {
		c, err := f.contents(a)
		if err != nil {
			return nil, 0, err
		}
		for _, n := range c.whole {
			whole = append(whole, ID{a, n})
		}
		top = max(top, slices.Max(slices.Concat([]int{0}, c.whole, c.part, c.bad)))
	}
	for _, cut := range f.cuts {
		top = max(top, cut.N)
	}
	if f.o.Blessed != nil {
		top = max(top, f.o.Blessed.N)
	}
	slices.SortFunc(whole, newestFirst)
	return whole, top, nil
}

func newestFirst(a, b ID) int {
	return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), cmp.Compare(b.N, a.N))
}

// expected is what the next generation needs by the largest of the last three, and
// an eighth more: jobs grow.
func (f *Folder) expected(ids []ID) int64 {
	var most int64
	for _, id := range ids[:min(3, len(ids))] {
		// One that cannot be read says nothing, and is judged elsewhere.
		if g, err := f.manifest(id); err == nil {
			most = max(most, g.Bytes())
		}
	}
	return most + min(most/8, math.MaxInt64-most)
}

func (p *Part) name() string { return dirOf(p.id) + partSuffix }

// Commit makes a generation of what is in the folder: it hashes all files, brings
// them to disk, writes the manifest, and gives the folder its name. If it fails the
// caller tries again or abandons it; ErrSuperseded says that a later attempt has begun meanwhile.
func (p *Part) Commit(ctx context.Context, a About) (Generation, error) {
	if p.over {
		return Generation{}, errors.New("the checkpoint is over")
	}
	var err error
	if p.whole == nil {
		err = p.commit(ctx, a)
	}
	if err == nil {
		err = p.settle()
	}
	if err != nil {
		return Generation{}, fmt.Errorf("keeping a checkpoint: %w", p.f.explain(err, p.need))
	}
	return *p.whole, nil
}

func (p *Part) commit(ctx context.Context, a About) error {
	f := p.f
	for _, name := range p.ours { // of a try before that failed
		if err := f.root.Remove(path.Join(p.name(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	files, err := seal(ctx, f.root, p.name())
	if err != nil {
		return err
	}
	if err := f.fault("sealed"); err != nil {
		return err
	}
	m := Manifest{
		Format: manifestFormat, N: p.id.N, Cluster: f.o.Cluster, Job: f.o.Job, Attempt: p.id.Attempt, Step: f.o.Step,
		Method: a.Method, Tool: a.Tool, Ranks: a.Ranks, Nodes: a.Nodes, Iteration: a.Iteration,
		Began: p.began.UTC(), Took: time.Since(p.began), Stopped: a.Stopped, Together: a.Together, Machine: a.Machine, Extra: a.Extra, Files: files,
	}
	text, sum, err := m.encode()
	if err != nil {
		return err
	}
	p.ours = []string{manifestName, sumName, manifestName + tempSuffix, sumName + tempSuffix}
	if err := writeSynced(f.root, path.Join(p.name(), sumName), sum); err != nil {
		return err
	}
	if err := f.fault("sum written"); err != nil {
		return err
	}
	if err := writeSynced(f.root, path.Join(p.name(), manifestName), text); err != nil {
		return err
	}
	if err := f.fault("manifest written"); err != nil {
		return err
	}
	if err := syncDir(f.root, p.name()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := f.superseded(); err != nil {
		return err
	}
	if err := f.root.Rename(p.name(), dirOf(p.id)); err != nil {
		// A network file system may do it, lose its answer, and try again.
		if _, lerr := f.root.Lstat(dirOf(p.id)); !errors.Is(err, fs.ErrNotExist) || lerr != nil {
			return err
		}
	}
	p.whole = &Generation{absOf(f.root, dirOf(p.id)), m}
	f.good[p.id] = true
	return f.fault("renamed")
}

// settle has the name of what is whole now outlive a power cut.
func (p *Part) settle() error {
	if err := syncDir(p.f.root, attemptName(p.id.Attempt)); err != nil {
		return err
	}
	p.over = true
	_ = p.lock.Close() // it has a hint written to it, and no more
	return nil
}

// Abandon deletes what was written, unless Commit has made a generation of it: that
// is whole, even if Commit could not make sure that its name outlives a power cut.
func (p *Part) Abandon() error {
	if p.over {
		return nil
	}
	p.over = true
	var err error
	if p.whole == nil {
		err = p.f.discard(p.name())
	}
	return errors.Join(err, p.lock.Close())
}

// Explain returns what a method failed with, as a *SpaceError if the folder has no
// room any more: tools seldom say it themselves. It is for before Abandon.
func (p *Part) Explain(err error) error {
	if err == nil {
		return nil
	}
	if s, ferr := p.f.free(p.f.root); ferr == nil && s.free >= 0 && s.free < nothingLeft {
		return &SpaceError{p.f.root.Name(), p.f.withReserve(p.need), s.free, err}
	}
	return p.f.explain(err, p.need)
}

// nothingLeft is how little a tool that failed for want of room leaves: less than
// its next write.
const nothingLeft = 1 << 20
