// Package jobword is what burstd says to burst-srun of a job before one of its steps
// begins: what the site says, which checkpoints are on record, how attempts have ended.
package jobword

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
)

// Path is asked before a job's steps begin: Asking -> Before. It is beside session's
// paths, and needs no session.
const Path = "/v1/job/before"

// Asking names an attempt of a job, a step of which is about to begin.
type Asking struct {
	Job     uint32 `json:"job"`
	Attempt int    `json:"attempt"`
}

// Before is what burstd knows before a step begins.
type Before struct {
	Site directive.Defaults `json:"site"` // what the site says of the job
	// Folders are the checkpoint directories that the job's generations on record lie
	// in: what the site says may have changed since they were made.
	Folders []string `json:"folders,omitempty"`
	// Blessed has, by step, the last good generation that is on record. Of a job with
	// a great many steps those are left out that were heard of longest ago: for them
	// counts what is on disk, as while burstd is away.
	Blessed map[string]OnRecord `json:"blessed,omitempty"`
	// First is when the job was submitted, which Slurm says in its attempt 0 alone;
	// zero: burstd has not seen that.
	First time.Time `json:"first,omitzero"`
	// Evicted are the job's attempts that have ended so, but those of which there is
	// nothing to say.
	Evicted map[int]Evicted `json:"evicted,omitempty"`
}

// Evicted is an attempt that was.
type Evicted struct {
	Died       time.Time `json:"died,omitzero"`        // when its node went without a notice; zero: it did not
	Iterations int64     `json:"iterations,omitempty"` // that were lost, of a program that counts them
}

// OnRecord is a generation that burstd has on record.
type OnRecord struct {
	ckpt.ID
	Folder int `json:"folder"` // which of Folders it lies in, from 1; 0: it is not known
}

// MaxAnswer is the most bytes that burst-srun reads of an answer of burstd's.
const MaxAnswer = 64 << 10

// maxBefore is the most bytes that a Before may have: what it is signed with stands in
// the answer too.
const maxBefore = MaxAnswer - 1<<10

// Tell makes a Before of what is on record of a job, in no order. An error says that
// what the site says does not fit.
func Tell(site directive.Defaults, rows []session.Blessed) (Before, error) {
	b := Before{Site: site}
	text, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	left := maxBefore - len(text) - len(`,"folders":[],"blessed":{}`)
	if left < 0 {
		return b, fmt.Errorf("the sections [checkpoint] of burst.toml that hold for the job have %d bytes, and burst-srun reads %d", len(text), maxBefore)
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b session.Blessed) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Step, b.Step)) })
	for _, g := range rows {
		on, more := OnRecord{ID: ckpt.ID{Attempt: g.Attempt, N: g.Answer.N}}, 0
		dir, known := directoryOf(g.Answer.Generation)
		if known {
			if on.Folder = slices.Index(b.Folders, dir) + 1; on.Folder == 0 {
				on.Folder, more = len(b.Folders)+1, sizeOf(dir)
			}
		}
		if left -= more + sizeOf(g.Step) + sizeOf(on); left < 0 {
			break
		}
		if on.Folder > len(b.Folders) {
			b.Folders = append(b.Folders, dir)
		}
		if b.Blessed == nil {
			b.Blessed = map[string]OnRecord{}
		}
		b.Blessed[g.Step] = on
	}
	return b, nil
}

// sizeOf is how long v is in JSON, with what parts it from the next.
func sizeOf(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		return maxBefore // it is left out
	}
	return len(text) + 1
}

// directoryOf is the checkpoint directory that a generation's folder lies in, which is
// DIR/job-17/step-0/attempt-0/gen-1.
func directoryOf(generation string) (dir string, ok bool) {
	dir = generation
	for _, kind := range []string{"gen-", "attempt-", "step-", "job-"} {
		if !strings.HasPrefix(path.Base(dir), kind) {
			return "", false
		}
		dir = path.Dir(dir)
	}
	return dir, path.IsAbs(dir)
}
