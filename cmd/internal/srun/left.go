package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

// Left is what a job has left in a checkpoint directory, by its own record.
type Left struct {
	Job     string // as its folder has it: "17", or "17_3" for a task of an array
	Cluster string
	Well    bool      // each step that it began has ended with exit code 0
	Kept    bool      // by keep_after=yes of a step
	Last    time.Time // the last that the record knows of
}

// LeftIn lists what jobs of this user, or of those whose folders it may read, have
// left in a directory; of more than most any so many, 0: all. Folders without a record
// are passed over. What could not be read is the error, beside what was.
func LeftIn(ctx context.Context, dir string, most int) ([]Left, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint directory: %w", err)
	}
	names = slices.DeleteFunc(names, func(e fs.DirEntry) bool { return !e.IsDir() || !strings.HasPrefix(e.Name(), "job-") })
	if most > 0 && len(names) > most {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:most]
	}
	var all []Left
	var errs []error
	for _, e := range names {
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		job := strings.TrimPrefix(e.Name(), "job-")
		l, err := leftOf(dir, job)
		switch {
		case err == nil:
			all = append(all, l)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// leftOf reads the last record of a job; fs.ErrNotExist: there is none.
func leftOf(dir, job string) (Left, error) {
	l := Left{Job: job, Well: true}
	root, err := ckpt.ViewJob(dir, job)
	if err != nil {
		return l, err
	}
	defer root.Close()
	names, err := os.ReadDir(root.Name())
	if err != nil {
		return l, err
	}
	last := -1
	for _, e := range names {
		number, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".json"), "steps-")
		if n, err := strconv.Atoi(number); ok && err == nil && e.Name() == (book{}).fileOf(n) {
			last = max(last, n)
		}
	}
	if last < 0 {
		return l, fmt.Errorf("%s: no record: %w", root.Name(), fs.ErrNotExist)
	}
	name := (book{}).fileOf(last)
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
		return l, cmp.Or(err, fmt.Errorf("%s/%s is no record", root.Name(), name))
	}
	r, err := readRecord(root, name)
	if err != nil {
		return l, err
	}
	l.Cluster, l.Last = r.Cluster, r.Began
	for _, s := range r.Steps {
		l.Well = l.Well && s.Done
		l.Kept = l.Kept || s.KeepAfter
		l.Last = slices.MaxFunc([]time.Time{l.Last, s.Began, s.Ended}, time.Time.Compare)
	}
	return l, nil
}

// maxRecord is more bytes than a record has: in a directory for all users it may be
// another's, who has made it to be read.
const maxRecord = 8 << 20

// KnownTo says whether Slurm, which has these jobs, still knows the job: it may be
// requeued even when it has ended.
func (l Left) KnownTo(jobs []slurm.Job) bool {
	array, task, isTask := strings.Cut(l.Job, "_")
	return slices.ContainsFunc(jobs, func(j slurm.Job) bool {
		if !isTask {
			return strconv.FormatUint(uint64(j.ID), 10) == l.Job
		}
		// Tasks that have not begun yet stand together, as in "3-5%2".
		_, err := strconv.Atoi(j.ArrayTask)
		return strconv.FormatUint(uint64(j.ArrayID), 10) == array && (j.ArrayTask == task || err != nil)
	})
}

// JobsOf asks Slurm for all jobs that it knows.
type JobsOf func(context.Context) ([]slurm.Job, error)

// Remove deletes what the job has left in a checkpoint directory, if Slurm still does
// not know it: ids are given again, and a new job may have begun there meanwhile.
func (l Left) Remove(ctx context.Context, dir string, ask JobsOf) error {
	jobs, err := ask(ctx)
	if err != nil {
		return err
	}
	now, err := leftOf(dir, l.Job)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // another process was first
	case err != nil:
		return err
	case l.KnownTo(jobs) || !now.Last.Equal(l.Last) || now.Well != l.Well:
		return fmt.Errorf("the checkpoints of job %s stay: a job has begun that has its id", l.Job)
	}
	return ckpt.RemoveJob(ctx, dir, l.Job)
}

// sweeping is what is needed to sweep a checkpoint directory.
type sweeping struct {
	dir, cluster string
	job          uint32 // that is running here, which a Slurm that is believed has
	jobs         JobsOf
}

// A sweep is bounded: the folders of all jobs may be in one directory, and a thousand
// jobs begin at once.
const (
	mostLooked = 200
	mostSwept  = 50 // Slurm is asked for each
)

// sweep deletes what jobs have left that ended well, and that Slurm does not know any
// more: nothing asks for their steps again. It returns how many there were.
func (s sweeping) sweep(ctx context.Context) (n int, err error) {
	rest := ckpt.RemoveRest(s.dir)
	all, err := LeftIn(ctx, s.dir, mostLooked)
	all = slices.DeleteFunc(all, func(l Left) bool { return !l.Well || l.Kept || l.Cluster != s.cluster })
	if len(all) == 0 {
		return 0, cmp.Or(err, rest)
	}
	jobs, err := s.jobs(ctx)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(jobs, func(j slurm.Job) bool { return j.ID == s.job }) {
		return 0, fmt.Errorf("slurm does not show job %d, which runs here", s.job)
	}
	errs := []error{rest}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // others sweep too
	for _, l := range all {
		if ctx.Err() != nil || n == mostSwept {
			break
		}
		if l.KnownTo(jobs) {
			continue
		}
		if err := l.Remove(ctx, s.dir, s.jobs); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

// sweepTime bounds a sweep, which goes on beside the step.
const sweepTime = 5 * time.Minute

// sweep does that once in an attempt of a job. What is not deleted costs room alone,
// and the next one tries again: nobody is told.
func (p *program) sweep(ctx context.Context, k known) {
	if k.trial != nil || !leave(os.TempDir(), k.job, hasSwept) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	s := sweeping{k.dir, k.job.Cluster, k.job.ID, slurm.New(slurm.Exec{Timeout: lookTime}).Jobs}
	if n, _ := s.sweep(ctx); n > 0 {
		p.say("checkpoints of %d jobs that have ended well are deleted from %s", n, k.dir)
	}
}
