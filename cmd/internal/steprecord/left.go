package steprecord

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
	"sync"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

// Left is what a job has left in a checkpoint directory, by its own record.
type Left struct {
	Job     string // as its folder has it: "17", or "17_3" for a task of an array
	Cluster string
	Ctld    string    // of the cluster, as Ctld says; empty: not known, or of several
	Well    bool      // each step that it began has ended with exit code 0, and no earlier job has left anything
	Kept    bool      // by keep_after=yes of a step
	Last    time.Time // the last that the record knows of
	any     bool      // whoever's the folder is
}

// Ctld names a cluster by its controller, which slurmctld's configuration says: two
// clusters may have the same name, and the same checkpoint directory. Empty: it is not
// to be found there.
func Ctld(conf map[string]string) string {
	host, port := conf["SlurmctldHost[0]"], conf["SlurmctldPort"]
	if host == "" || port == "" {
		return ""
	}
	return host + ":" + port
}

// LeftIn is LookIn for what jobs of this user have left, or, for root, of all users.
func LeftIn(ctx context.Context, dir string) ([]Left, error) {
	return LookIn(ctx, dir, Looking{Any: os.Geteuid() == 0})
}

// Looking says which folders are looked at.
type Looking struct {
	Most int  // of more than so many any so many; 0: all
	Any  bool // whoever's they are
}

// LookIn lists what jobs have left in a directory, of folders as look has it. Folders
// without a record are passed over. What could not be read is the error, beside what was.
func LookIn(ctx context.Context, dir string, look Looking) ([]Left, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint directory: %w", err)
	}
	names = slices.DeleteFunc(names, func(e fs.DirEntry) bool { return !e.IsDir() || !strings.HasPrefix(e.Name(), "job-") })
	if look.Most > 0 && len(names) > look.Most {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:look.Most]
	}
	mapped := sync.OnceValues(func() (int, error) { return ckpt.OwnerIn(dir) })
	var all []Left
	var errs []error
	for _, e := range names {
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		if owner := ownerOf(e); !look.Any && owner != os.Geteuid() {
			if me, err := mapped(); err != nil || owner != me {
				continue
			}
		}
		l, err := leftOf(dir, strings.TrimPrefix(e.Name(), "job-"), look.Any)
		switch {
		case err == nil:
			all = append(all, l)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// ownerOf is the user id that a folder belongs to; -1: it is not known.
func ownerOf(e fs.DirEntry) int {
	if info, err := e.Info(); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			return int(s.Uid)
		}
	}
	return -1
}

// leftOf reads the records of a job; fs.ErrNotExist: there are none.
func leftOf(dir, job string, whoever bool) (Left, error) {
	view := ckpt.ViewJob
	if whoever {
		view = ckpt.ViewAnyJob
	}
	root, err := view(dir, job)
	if err != nil {
		return Left{}, err
	}
	defer root.Close()
	attempts, earlier, err := recordsIn(root)
	if err != nil {
		return Left{}, err
	}
	if len(attempts) == 0 {
		return Left{}, fmt.Errorf("%s: no record: %w", root.Name(), fs.ErrNotExist)
	}
	var all []Record
	room := int64(maxRecord)
	for _, n := range attempts {
		r, size, err := readRecord(root, (Book{}).fileOf(n), room)
		if err != nil {
			return Left{}, err
		}
		r.Attempt = n
		room -= size
		all = append(all, r)
	}
	l := judged(all)
	l.Job, l.any, l.Well = job, whoever, l.Well && !earlier
	return l, nil
}

// judged is what the records in a job's folder say together. Ids are given again: that
// of the newest job need not have the highest number.
func judged(all []Record) Left {
	newest := slices.MaxFunc(all, func(a, b Record) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Attempt, b.Attempt)) })
	l := Left{Cluster: newest.Cluster, Ctld: newest.Ctld, Well: true}
	for _, r := range all {
		// An attempt begins with what the ones before it knew of their steps.
		taken := r.Attempt < newest.Attempt && r.Script == newest.Script && r.Cluster == newest.Cluster
		if r.Cluster != newest.Cluster || r.Ctld != newest.Ctld && !(taken && r.Ctld == "") {
			l.Ctld = ""
		}
		l.Last = slices.MaxFunc([]time.Time{l.Last, r.Began}, time.Time.Compare)
		for _, s := range r.Steps {
			l.Well = l.Well && (s.Done || taken)
			l.Kept = l.Kept || s.KeepAfter
			l.Last = slices.MaxFunc([]time.Time{l.Last, s.Began, s.Ended}, time.Time.Compare)
		}
	}
	return l
}

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

// JobsOf asks Slurm for a job, and where it is the first of several for those; none:
// Slurm does not know it.
type JobsOf func(ctx context.Context, id uint32) ([]slurm.Job, error)

// Remove deletes what the job has left in a checkpoint directory, if Slurm still does
// not know it: ids are given again, and a new job may have begun there meanwhile.
func (l Left) Remove(ctx context.Context, dir string, ask JobsOf) error {
	now, err := leftOf(dir, l.Job, l.any)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // another process was first
	case err != nil:
		return err
	}
	array, _, _ := strings.Cut(l.Job, "_")
	id, err := strconv.ParseUint(array, 10, 32)
	if err != nil {
		return fmt.Errorf("%s is no job's id", l.Job)
	}
	jobs, err := ask(ctx, uint32(id))
	if err != nil {
		return err
	}
	if l.KnownTo(jobs) || !now.Last.Equal(l.Last) || now.Well != l.Well || now.Ctld != l.Ctld {
		return fmt.Errorf("the checkpoints of job %s stay: a job has begun that has its id", l.Job)
	}
	return ckpt.RemoveJob(ctx, dir, l.Job)
}
