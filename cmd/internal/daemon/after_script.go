package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

const (
	// A script that cannot be read is tried again after afterPause, twice that, and so
	// on: two and a half minutes in all. Meanwhile others are read.
	afterGiveUp = 6
	afterAnswer = 5 * time.Second // for one script
	// Of arrays, whose tasks have one script: at most so many, each so long, in bytes.
	afterScripts, afterScript = 256, 64 << 10
)

// try is how often a script could not be read, and when it is tried again.
type try struct {
	times int
	again time.Time
}

// asks says whether the run's job asks for its nodes to be powered down.
func (a *afterJobs) asks(ctx context.Context, r history.Run, j slurm.Job) (bool, error) {
	said := directive.Said{Comment: j.Comment, Site: a.cfg.Defaults(j.Partition, r.Pool)}
	if j.Batch {
		var err error
		if said.Script, err = a.script(ctx, j); err != nil {
			return false, err
		}
	}
	m, err := said.Merge()
	if err != nil { // the user was told; as for the rest, the site's defaults hold
		if m, err = directive.Merge(said.Site.Layers...); err != nil {
			return false, nil // burst.toml has been judged: never
		}
	}
	return m.After == directive.PowerDown, nil
}

// keepTried forgets what was tried of runs that are not due any more, and puts those
// of which nothing was tried first.
func (a *afterJobs) keepTried(due []history.Run) {
	tried := map[history.Run]try{}
	for _, r := range due {
		if t, ok := a.tried[r]; ok {
			tried[r] = t
		}
	}
	if a.tried = tried; len(due) == 0 {
		a.scripts = nil
	}
	slices.SortStableFunc(due, func(x, y history.Run) int { return cmp.Compare(tried[x].times, tried[y].times) })
}

// failed notes that the run's script could not be read, and says when to try it again;
// 0: not any more.
func (a *afterJobs) failed(r history.Run) time.Duration {
	n := a.tried[r].times + 1
	if n == afterGiveUp {
		return 0
	}
	wait := jitter(afterPause << (n - 1))
	a.tried[r] = try{n, time.Now().Add(wait)}
	return wait
}

// reads says whether the job's script has to be read.
func (a *afterJobs) reads(j slurm.Job) bool {
	_, known := a.scripts[j.ArrayID]
	return j.Batch && !known
}

// script reads that of a batch job; "": Slurm has none.
func (a *afterJobs) script(ctx context.Context, j slurm.Job) (string, error) {
	if text, ok := a.scripts[j.ArrayID]; ok {
		return text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, afterAnswer)
	defer cancel()
	text, err := a.client.BatchScript(ctx, cmp.Or(j.HetID, j.ID)) // the parts have their leader's
	if errors.Is(err, slurm.ErrNoJob) {
		return "", nil
	}
	if err == nil && j.ArrayID != 0 && len(text) <= afterScript {
		if a.scripts == nil || len(a.scripts) == afterScripts {
			a.scripts = map[uint32]string{}
		}
		a.scripts[j.ArrayID] = text
	}
	return text, err
}
