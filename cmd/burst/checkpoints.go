package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// generation is one line of list, verify and prune.
type generation struct {
	Job       string     `json:"job"`
	Step      string     `json:"step"`
	Attempt   int        `json:"attempt"`
	N         int        `json:"n"`
	State     ckpt.State `json:"state"`
	Why       string     `json:"why,omitempty"`
	Dir       string     `json:"dir"`
	Began     *time.Time `json:"began"` // null: not known, as all below
	Seconds   *float64   `json:"seconds"`
	Bytes     int64      `json:"bytes"`
	Files     int        `json:"files"`
	Method    string     `json:"method,omitempty"`
	Tool      string     `json:"tool,omitempty"`
	Ranks     int        `json:"ranks,omitempty"`
	Nodes     int        `json:"nodes,omitempty"`
	Iteration *int64     `json:"iteration"`
}

func generationOf(o ckpt.Options, e ckpt.Entry) generation {
	g := generation{Job: o.Job, Step: o.Step, Attempt: e.Attempt, N: e.N, State: e.State, Dir: e.Dir, Bytes: e.Bytes, Files: e.Files}
	if e.Why != nil {
		g.Why = e.Why.Error()
	}
	if m := e.Manifest; m.Format != 0 {
		seconds := m.Took.Seconds()
		g.Began, g.Seconds = &m.Began, &seconds
		g.Method, g.Tool, g.Ranks, g.Nodes = m.Method, m.Tool, m.Ranks, m.Nodes
		if m.Iteration >= 0 {
			g.Iteration = &m.Iteration
		}
	}
	return g
}

// eachStep does something with the folder of each step that is meant, and goes on
// after one that fails.
func eachStep(o checkpointOptions, args []string, do func(*ckpt.Folder) ([]ckpt.Entry, error)) ([]generation, error) {
	found, err := ckpt.Find(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.WithHint(err, "name the directory with --dir; burst explain job.sh shows it")
	}
	errs := []error{err}
	meant, err := meantSteps(found, args)
	errs = append(errs, err)
	lines := []generation{} // [] in JSON, not null
	for _, step := range meant {
		step.Keep = o.keep
		f, err := ckpt.View(step)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went a moment ago
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries, err := do(f)
		f.Close()
		errs = append(errs, err)
		for _, e := range entries {
			lines = append(lines, generationOf(step, e))
		}
	}
	return lines, errors.Join(errs...)
}

// meantSteps are those of found that the arguments name, JOB or JOB.STEP; without
// arguments all. Each argument must name one.
func meantSteps(found []ckpt.Options, args []string) ([]ckpt.Options, error) {
	if len(args) == 0 {
		return found, nil
	}
	var meant []ckpt.Options
	used := make([]bool, len(args))
	for _, o := range found {
		hit := false
		for i, a := range args {
			job, step, one := strings.Cut(a, ".")
			if o.Job == job && (!one || o.Step == step) {
				hit, used[i] = true, true
			}
		}
		if hit {
			meant = append(meant, o)
		}
	}
	var missing []string
	for i, a := range args {
		if !used[i] {
			missing = append(missing, printable(a))
		}
	}
	if len(missing) > 0 {
		return meant, cli.WithHint(fmt.Errorf("there is no checkpoint folder of %s here", strings.Join(missing, ", ")), "name the directory with --dir; burst explain job.sh shows it")
	}
	return meant, nil
}

// show writes what there is, and returns what failed beside.
func show(w io.Writer, lines []generation, asJSON bool, failed error) error {
	if lines == nil {
		return failed
	}
	return errors.Join(writeGenerations(w, lines, asJSON), failed)
}

func writeGenerations(w io.Writer, lines []generation, asJSON bool) error {
	if asJSON {
		return writeJSON(w, lines)
	}
	rows := [][]string{{"JOB", "STEP", "ATTEMPT", "GEN", "STATE", "BEGAN", "SECONDS", "MB", "METHOD", "ITERATION", "WHY"}}
	for _, g := range lines {
		began, seconds, iteration := "-", "-", "-"
		if g.Began != nil {
			began, seconds = stamp(*g.Began), fmt.Sprintf("%.1f", *g.Seconds)
		}
		if g.Iteration != nil {
			iteration = strconv.FormatInt(*g.Iteration, 10)
		}
		rows = append(rows, []string{g.Job, g.Step, strconv.Itoa(g.Attempt), strconv.Itoa(g.N), string(g.State), began, seconds,
			fmt.Sprintf("%.1f", float64(g.Bytes)/1e6), cmp.Or(g.Method, "-"), iteration, g.Why})
	}
	return writeTable(w, rows)
}
