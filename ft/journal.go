// Package ft acts on the cloud's notices: it drains the node that will go, has
// its jobs checkpoint, requeues them and clears their hold, so that an eviction
// costs a job no more than the work since its last good checkpoint.
package ft

import (
	"context"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft/session"
)

// Stage is how far the handling of a notice, or of one job under it, has come.
//
//	notice:  heard -> draining -> done -> acked
//	             \-> foreign (no node of ours, ignored by its pool, or cancelled) -> acked
//	job:     planned -> signalled -> requeued -> done
type Stage string

const (
	Heard     Stage = "heard"
	Draining  Stage = "draining" // Slurm is told, or has been; jobs are being moved
	Foreign   Stage = "foreign"  // nothing is done about it
	Planned   Stage = "planned"
	Signalled Stage = "signalled" // sent at SignalledAt, if it has one
	Requeued  Stage = "requeued"  // waits for its hold to be cleared
	Done      Stage = "done"
	Acked     Stage = "acked" // the provider has been told: closed
)

// Died is the kind of the evictions of which there was no notice: the node went with
// its jobs. They are written down closed, under its instance.
const Died cloud.NoticeKind = "died"

// Ending is what became of the attempt of an eviction that is Done; empty: neither.
type Ending string

const (
	Moved    Ending = "moved"    // its job is in the queue again
	Finished Ending = "finished" // its job ended well in its grace time
)

// Notice is the journal's record of a notice. Its key is (Instance, Kind);
// package notice says how several of one key are merged.
type Notice struct {
	cloud.Notice
	Provider string
	Node     string
	Stage    Stage
	Ahead    string // the node that is raised in its place; empty: none
}

// Eviction is the journal's record of one job under one notice. Its key is
// (Instance, Kind, Job); Restarts guards it against the job's next attempt.
type Eviction struct {
	Instance    string
	Kind        cloud.NoticeKind
	Job         uint32
	Restarts    int // of the attempt that is evicted
	Node        string
	Stage       Stage
	Signal      string // as the directive has it: "USR1" or "B:USR1"; empty: none
	Grace       time.Duration
	SignalledAt time.Time    // or when its steps were asked
	Started     time.Time    // when the attempt began; zero: not known
	Ask         session.Kind // what the steps are asked in place of a signal; empty: they have no session
	By          time.Time    // until when
	Retries     int          // how often in a row the job may be evicted without a new checkpoint; below 0: any number
	Ending      Ending
	Hold        bool // the attempt is not to be followed by another by itself: Outcome says why
	Held        bool // Slurm has been told so, once: an admin may have let it go since
	// Lost is the time of computing that the attempt has lost, as far as its steps
	// say; -1: not known. LostIterations is the application's count.
	Lost           time.Duration
	LostIterations int64
	Began          time.Time
	Ended          time.Time
	Outcome        string // for the user: what became of the job, and before its end what is wrong with its directive
}

// Event is one line of the history that admins and users read.
type Event struct {
	Time                 time.Time
	Kind                 string
	Node, Instance, Text string
	Job                  uint32
}

// State is all that is not closed.
type State struct {
	Notices   []Notice
	Evictions []Eviction // under these, and others of the same attempts of jobs
}

// Change is what one transaction writes: records are put whole, by their key.
type Change struct {
	Notices   []Notice
	Evictions []Eviction
	Events    []Event
}

// Name says what a change does, for the points at which tests stop the daemon.
func (c *Change) Name() string {
	switch {
	case len(c.Events) > 0:
		return c.Events[0].Kind
	case len(c.Evictions) > 0:
		return "eviction " + string(c.Evictions[0].Stage)
	case len(c.Notices) > 0:
		return "notice " + string(c.Notices[0].Stage)
	}
	return "nothing"
}

// journal is what the guard needs of the store.
type journal interface {
	// AddNotice makes the notice durable, merged with what its key has. It is
	// false for one that says nothing new.
	AddNotice(ctx context.Context, provider string, n cloud.Notice) (bool, error)
	// NoticeOf is what the key has, merged; zero if there is nothing.
	NoticeOf(ctx context.Context, instance string, kind cloud.NoticeKind) (Notice, error)
	LoadFT(ctx context.Context) (State, error)
	// Moved are the evictions that have ended so, since then.
	Moved(ctx context.Context, since time.Time) ([]Eviction, error)
	// CommitFT writes a change; changes that come at once share a transaction. A
	// notice that is Acked without a node is forgotten, and one that was cancelled
	// meanwhile, or is no longer, is not closed.
	CommitFT(ctx context.Context, c Change) error
	// NodeOf is the node that the instance serves now; empty: none.
	NodeOf(ctx context.Context, instance string) (string, error)
}
