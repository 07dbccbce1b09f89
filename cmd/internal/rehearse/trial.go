// Package rehearse tries a job's checkpoints before they are needed: it has the job
// run for a short while, checkpointed and killed, restarts it twice from the same
// checkpoint, and has its user's own command judge the results.
package rehearse

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// EnvName is the variable by which a burst-srun learns that its job is a
// rehearsal: the absolute path of the folder for its reports.
const EnvName = "BURST_REHEARSE"

// trialName is the file of that folder that says what to do. It is there before
// the job runs.
const trialName = "trial.json"

// Trial is what the burst-sruns of a rehearsed job are told.
type Trial struct {
	Dir    string        `json:"-"`         // of the reports
	Job    uint32        `json:"job"`       // which is rehearsed, and no job that it submits
	For    time.Duration `json:"for_ns"`    // from a step's start to its checkpoint
	Within time.Duration `json:"within_ns"` // which the checkpoint may take
	Method string        `json:"method"`    // as of --ckpt, in place of it; empty: what the job says
}

// Told is the trial that a process of the job is in; nil: none.
func Told(env func(string) string, job uint32) (*Trial, error) {
	dir := env(EnvName)
	if dir == "" {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(dir, trialName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // over long ago: the variable has been passed on
	}
	t := Trial{Dir: dir}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return nil, fmt.Errorf("%s=%s: what is to be rehearsed cannot be read: %w", EnvName, dir, err)
	}
	if t.Job != job {
		return nil, nil
	}
	return &t, nil
}

// Checkpoints is where the checkpoints go of a job that names no absolute folder.
func (t Trial) Checkpoints() string { return filepath.Join(filepath.Dir(t.Dir), "checkpoints") }

// tell writes the trial down.
func (t Trial) tell() error { return writeJSON(filepath.Join(t.Dir, trialName), t) }

// Report is what a burst-srun says of a step in one attempt of the job. It is
// written again when there is more to say.
type Report struct {
	Job     uint32       `json:"job"`
	Attempt int          `json:"attempt"`
	Step    string       `json:"step"`
	Program Program      `json:"program"`
	Method  string       `json:"method"`
	Folder  string       `json:"folder"` // of the job's checkpoints
	Dir     string       `json:"dir"`    // of checkpoints without a rehearsal; relative: to the job's folder
	Host    string       `json:"host"`
	Nodes   int          `json:"nodes"` // of the job; 0: not known
	Machine ckpt.Machine `json:"machine"`

	Began   time.Time     `json:"began,omitzero"` // the step ran; zero: it did not start
	Restart time.Duration `json:"restart_ns"`     // from the start of burst-srun to that
	From    ckpt.ID       `json:"from"`           // which it restarted from; zero: from its beginning
	Made    *Made         `json:"made,omitempty"` // the checkpoint
	Ended   time.Time     `json:"ended,omitzero"` // by itself
	Code    int           `json:"code"`           // with this exit code
	Error   string        `json:"error,omitempty"`
	Amiss   string        `json:"amiss,omitempty"` // why the job would not do well with its strategy, though Made is there
}

// Made is the checkpoint of a rehearsal.
type Made struct {
	ckpt.ID
	Tool      string        `json:"tool,omitempty"`
	Took      time.Duration `json:"took_ns"`
	Bytes     int64         `json:"bytes"`
	Files     int           `json:"files"`
	Ranks     int           `json:"ranks,omitempty"`
	Iteration int64         `json:"iteration"` // -1: not known
}

// Report hands a report over.
func (t Trial) Report(r Report) error {
	name := fmt.Sprintf("attempt-%d-step-%s.json", r.Attempt, r.Step)
	if filepath.Base(name) != name {
		return fmt.Errorf("step %q: a report cannot be named so", r.Step)
	}
	return writeJSON(filepath.Join(t.Dir, name), r)
}

// reports are those of an attempt, in the order in which their steps began.
func (t Trial) reports(attempt int) ([]Report, error) {
	names, err := filepath.Glob(filepath.Join(globbed(t.Dir), fmt.Sprintf("attempt-%d-step-*.json", attempt)))
	if err != nil {
		return nil, err
	}
	var all []Report
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var r Report
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if r.Job == t.Job && r.Attempt == attempt {
			all = append(all, r)
		}
	}
	return all, nil
}

// globbed is a path as a pattern that stands for it alone.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// writeJSON writes a file that is whole, or is not there.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
