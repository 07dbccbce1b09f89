// Package steprecord keeps what is known of a job's steps beside its checkpoints: a file
// for each attempt, steps-<n>.json in the job's folder. An attempt begins with a copy of the
// one before, so that what an attempt writes after it was cut off is not read by any later
// one. By these records it is also known what a job has left there, and whether it may go.
package steprecord

import (
	"slices"
	"strconv"
	"time"

	"github.com/burst-hpc/burst/slurm/directive"
)

// Step is one step of a job.
type Step struct {
	Name    string    `json:"name"` // "0", "1", … in the order of their first start, or that of --once
	Args    []string  `json:"args"` // srun's
	Program string    `json:"program"`
	Dir     string    `json:"dir"`     // that it was started in
	Attempt int       `json:"attempt"` // that ran it last
	Began   time.Time `json:"began"`   // there
	Ended   time.Time `json:"ended,omitzero"`
	Done    bool      `json:"done"` // it has ended by itself with exit code 0
	// Image is that which its ranks ran in, and what tells it from others of its name; empty:
	// they ran on the host, or it is not known.
	Image string `json:"image,omitempty"`
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
	Stats
}

// Stats are summed over the attempts of a step.
type Stats struct {
	Ran         time.Duration `json:"ran_ns"`
	Checkpoints int           `json:"checkpoints"`
	Writing     time.Duration `json:"checkpointing_ns"`
	Restarts    int           `json:"restarts"`
	Lost        time.Duration `json:"lost_ns"`
	LostUnknown int           `json:"lost_unknown"` // attempts that ended without a word, and of which burstd has none
	// LostIterations are the iterations of that work, where the program counts them.
	LostIterations int64 `json:"lost_iterations,omitempty"`
}

// Record is the file.
type Record struct {
	Cluster string `json:"cluster,omitempty"`
	// Ctld is the cluster's controller: names of clusters are given twice. Empty: not
	// known; then nothing proves that a job of this cluster has left this.
	Ctld    string    `json:"slurmctld,omitempty"`
	Script  string    `json:"script"` // SHA-256 in hex: ids of jobs are given again, and a requeue changes no script
	Attempt int       `json:"attempt"`
	Began   time.Time `json:"began"`
	// Submitted is what Slurm said of that in the attempt; zero: not known.
	Submitted time.Time `json:"submitted,omitzero"`
	Steps     []Step    `json:"steps"`
	Sets      []Choice  `json:"sets,omitempty"` // by attempts, the oldest first
}

// Choice is what the parts of an attempt restart from.
type Choice struct {
	Attempt int            `json:"attempt"`
	From    int            `json:"from"` // the attempt that made the set; -1: all begin anew
	Set     map[string]int `json:"set,omitempty"`
}

// Chosen is the attempt's own.
func (r Record) Chosen() (Choice, bool) {
	i := slices.IndexFunc(r.Sets, func(c Choice) bool { return c.Attempt == r.Attempt })
	if i < 0 {
		return Choice{}, false
	}
	return r.Sets[i], true
}

// Claim finds the step that a command line is in this attempt, or makes a new one:
// that of the name; else the first with the same arguments in the same folder that no
// other has claimed. Arguments may change with the time of day: if a single step of the
// program in that folder is not done, it is that. To take another step's checkpoints
// would be worse than to begin anew. It returns its index, and what it was before.
func (r *Record) Claim(e Step, once string) (index int, was Step) {
	free := func(s Step) bool { return s.Attempt < r.Attempt && !Named(s) }
	i := -1
	switch {
	case once != "":
		i = slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == once })
	default:
		i = slices.IndexFunc(r.Steps, func(s Step) bool { return free(s) && s.Dir == e.Dir && slices.Equal(s.Args, e.Args) })
		if i < 0 && e.Program != "" {
			i = only(r.Steps, func(s Step) bool { return free(s) && !s.Done && s.Dir == e.Dir && s.Program == e.Program })
		}
	}
	if i < 0 {
		n := 0
		for _, s := range r.Steps {
			if !Named(s) {
				n++
			}
		}
		e.Name = once
		if once == "" {
			e.Name = strconv.Itoa(n)
		}
		e.Attempt = r.Attempt
		r.Steps = append(r.Steps, e)
		return len(r.Steps) - 1, Step{}
	}
	s := &r.Steps[i]
	was = *s
	if !s.Done || once == "" {
		s.Done, s.Ended, s.Behind = false, time.Time{}, 0
		s.Args, s.Program, s.Dir, s.Attempt, s.Began = e.Args, e.Program, e.Dir, r.Attempt, e.Began
		s.Components, s.Runs, s.Image = nil, false, e.Image
		if len(e.Settings) > 0 {
			s.Settings = e.Settings
		}
	}
	return i, was
}

// only is the index of the one step that is meant; -1: there is none, or several.
func only(all []Step, meant func(Step) bool) int {
	i := slices.IndexFunc(all, meant)
	if i >= 0 && slices.ContainsFunc(all[i+1:], meant) {
		return -1
	}
	return i
}

// Strays are the steps of earlier attempts that e, which is new, may have been meant to
// be: they are not done, and nothing tells which is which.
func (r *Record) Strays(e Step) (n int) {
	for _, s := range r.Steps {
		if s.Attempt < r.Attempt && !s.Done && !Named(s) && e.Program != "" && s.Program == e.Program {
			n++
		}
	}
	return n
}

// Named says whether a step has a name of --once.
func Named(e Step) bool { _, err := strconv.Atoi(e.Name); return err != nil }
