package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

// sweeping is what is needed to sweep a checkpoint directory.
type sweeping struct {
	dir, cluster string
	ctld         string // empty: nothing is deleted
	job          uint32 // that is running here, which a Slurm that is believed has
	slurm        queue
}

// queue is what a sweep asks Slurm for.
type queue interface {
	Jobs(context.Context) ([]slurm.Job, error)
	JobsOf(ctx context.Context, id uint32) ([]slurm.Job, error)
}

// A sweep is bounded: the folders of all jobs may be in one directory, and a thousand
// jobs begin at once.
const (
	mostLooked = 200
	mostSwept  = 50 // Slurm is asked for each
	// sweepAge is how old the last word of a job's record is at least: a mistake of
	// whose job it is then costs nothing that has just been made.
	sweepAge = 6 * time.Hour
	// sweepEach is the time from one sweep of a directory to the next.
	sweepEach = time.Hour
	// sweepTime bounds a sweep, which goes on beside the step.
	sweepTime = 5 * time.Minute
)

// sweep deletes what jobs of this user have left that ended well, and that Slurm does
// not know any more: nothing asks for their steps again. It returns how many there were.
func (s sweeping) sweep(ctx context.Context) (n int, err error) {
	rest := ckpt.RemoveRest(s.dir)
	all, err := steprecord.LookIn(ctx, s.dir, steprecord.Looking{Most: mostLooked})
	for _, l := range all {
		if ctx.Err() == nil {
			rest = errors.Join(rest, ckpt.RemoveTrash(ctx, s.dir, l.Job))
		}
	}
	all = slices.DeleteFunc(all, func(l steprecord.Left) bool { return !s.mayGo(l) })
	if len(all) == 0 {
		return 0, cmp.Or(err, rest)
	}
	jobs, err := s.slurm.Jobs(ctx)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(jobs, func(j slurm.Job) bool { return j.ID == s.job }) {
		return 0, fmt.Errorf("slurm does not show job %d, which runs here", s.job)
	}
	all = slices.DeleteFunc(all, func(l steprecord.Left) bool { return l.KnownTo(jobs) })
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // one that cannot be deleted is not always the first
	errs := []error{rest}
	for _, l := range all[:min(len(all), mostSwept)] {
		if ctx.Err() != nil {
			break
		}
		if err := l.Remove(ctx, s.dir, s.slurm.JobsOf); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

// mayGo says whether what a job has left goes when Slurm does not know it.
func (s sweeping) mayGo(l steprecord.Left) bool {
	return l.Well && !l.Kept && l.Cluster == s.cluster && l.Ctld == s.ctld && s.ctld != "" && time.Since(l.Last) > sweepAge
}

// swept is what is written into the file by which sweepers take turns.
const swept = "swept\n"

// turn takes this user's turn to sweep a directory, by a file in it that is locked
// while it is swept; nil: it has been, within the hour, or another process does.
func turn(dir string) (release func()) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	name := fmt.Sprintf(".swept-%d", os.Geteuid())
	recent := func() bool {
		info, err := root.Lstat(name)
		return err == nil && (!info.Mode().IsRegular() || time.Since(info.ModTime()).Abs() < sweepEach && info.Size() > 0)
	}
	if recent() {
		return nil
	}
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil // another user's
	}
	err = steprecord.TryLock(f)
	if err == nil && recent() {
		err = errors.New("another process was first")
	}
	info, serr := f.Stat()
	if at, lerr := root.Lstat(name); err == nil && (serr != nil || lerr != nil || !os.SameFile(at, info) || info.Size() > int64(len(swept))) {
		err = errors.New("it leads to another file")
	}
	if err == nil {
		_, err = f.WriteAt([]byte(swept), 0)
		err = errors.Join(err, f.Sync()) // for those to whom the lock does not reach
	}
	if err != nil {
		f.Close()
		return nil
	}
	return func() { f.Close() }
}

// sweep does that once in an attempt of a job, and for all jobs once an hour. What is
// not deleted costs room alone, and the next one tries again: nobody is told.
func (p *program) sweep(ctx context.Context, k known) {
	if k.trial != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	_ = ckpt.RemoveTrash(ctx, k.dir, k.job.Folder())
	if k.ctld == "" || !leave(os.TempDir(), k.job, hasSwept) {
		return
	}
	release := turn(k.dir)
	if release == nil {
		return
	}
	defer release()
	s := sweeping{k.dir, k.job.Cluster, k.ctld, k.job.ID, slurm.New(slurm.Exec{Timeout: lookTime})}
	if n, _ := s.sweep(ctx); n > 0 {
		p.say("checkpoints of %d jobs that have ended well are deleted from %s", n, k.dir)
	}
}

// ctldOf asks, once in an attempt, which controller the job's cluster has; empty: it is
// not known, and what the job leaves is not deleted by any sweep.
func (p *program) ctldOf(ctx context.Context, k known) string {
	if r, _, err := k.book(k.dir).Peek(); err == nil && r.Ctld != "" {
		return r.Ctld
	}
	if k.unread != nil {
		return "" // Slurm does not answer
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	conf, err := p.slurm().ShowConfig(ctx)
	if err != nil {
		return ""
	}
	return steprecord.Ctld(conf)
}
