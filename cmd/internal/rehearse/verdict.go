package rehearse

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// What a rehearsal shows.
const (
	Trusted    = "trusted"    // the results were right after both restarts
	Unverified = "unverified" // it restarted twice; that the results are right is not shown
	Failed     = "failed"     // there was no checkpoint, or no restart from it
)

// Result is what became of a rehearsal. Times are in seconds.
type Result struct {
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Script  string    `json:"script"`        // absolute
	Sum     string    `json:"script_sha256"` // of the script, in hex
	Job     uint32    `json:"job,omitempty"` // 0: none was submitted
	Verify  string    `json:"verify,omitempty"`

	Step       string        `json:"step,omitempty"`
	Method     string        `json:"method,omitempty"`
	Program    Program       `json:"program"`
	Host       string        `json:"host,omitempty"`
	Nodes      int           `json:"nodes,omitempty"`
	Machine    *ckpt.Machine `json:"machine,omitempty"`
	Checkpoint *Checkpoint   `json:"checkpoint"` // null: there was none
	Restarts   []Restart     `json:"restarts"`
	Folder     string        `json:"folder,omitempty"` // what is left; empty: nothing
}

// Checkpoint is the one that was taken.
type Checkpoint struct {
	Tool      string  `json:"tool,omitempty"`
	Seconds   float64 `json:"seconds"`
	Bytes     int64   `json:"bytes"`
	Files     int     `json:"files"`
	Ranks     int     `json:"ranks,omitempty"`
	Iteration *int64  `json:"iteration"` // null: not known
}

// Restart is one of the two.
type Restart struct {
	Seconds  float64 `json:"seconds"` // from the start of burst-srun until the step ran
	Host     string  `json:"host"`
	Ended    bool    `json:"ended"`    // the job ran to its end; else for the time it was given
	Verified *bool   `json:"verified"` // null: not judged
}

// verdicts is the folder of the verdicts, below that of the checkpoints.
const verdicts = "rehearsals"

// silent says that r, which nobody has judged, is no word against what is known.
func (r Result) silent(old Result) bool {
	return r.Verdict == Unverified && r.Reason == unjudged && old.Verdict == Trusted && old.Program == r.Program
}

// keep writes the verdict where burst-srun, burst explain and burst checkpoint
// methods look for it: in the folder of the checkpoints, one file for a program and
// a method.
func (r Result) keep(dir string) error {
	if r.Program.SHA256 == "" || r.Method == "" {
		return errors.New("the step's program is not known")
	}
	dir = filepath.Join(dir, verdicts)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(dir, fileName(r.Method, r.Program))
	if old, err := readResult(name); err == nil && r.silent(old) {
		return nil
	}
	return writeJSON(name, r)
}

func fileName(method string, p Program) string {
	return fmt.Sprintf("%s-%.16s.json", filepath.Base(method), p.SHA256)
}

// Known are the verdicts in a folder of checkpoints, newest first. What cannot be
// read is left out, and is an error beside the others.
func Known(dir string) ([]Result, error) {
	entries, err := os.ReadDir(filepath.Join(dir, verdicts))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	var all []Result
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		name := filepath.Join(dir, verdicts, e.Name())
		r, err := readResult(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Result) int { return b.At.Compare(a.At) })
	return all, errors.Join(errs...)
}

func readResult(name string) (r Result, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// Of is the verdict on a program with a method; nil: there is none in the folder.
func Of(dir, method, name, path string) *Result {
	if _, err := os.Stat(filepath.Join(dir, verdicts)); err != nil {
		return nil // the program need not be read
	}
	p := Identify(name, path)
	r, err := readResult(filepath.Join(dir, verdicts, fileName(method, p)))
	if err != nil || p.SHA256 == "" || r.Program.SHA256 != p.SHA256 || r.Method != method {
		return nil
	}
	return &r
}

// OfScript is the newest verdict on a job script with a method; nil: there is none
// in the folder.
func OfScript(dir, method, text string) *Result {
	all, err := Known(dir)
	if err != nil && len(all) == 0 {
		return nil
	}
	sum := sumOfText(text)
	for i, r := range all {
		if r.Sum == sum && r.Method == method {
			return &all[i]
		}
	}
	return nil
}

func sumOfText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Words says in a few words what is known.
func (r Result) Words() string {
	return fmt.Sprintf("%s when rehearsed on %s", r.Verdict, r.At.Local().Format(time.DateOnly))
}
