// Package bench measures Burst: each benchmark has a name that stays, a
// method, and mostly a goal. `burst bench` runs them.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What is better.
const (
	Lower  = "lower"
	Higher = "higher"
)

// Bench is one benchmark.
type Bench struct {
	Name   string
	Method string // what is measured and how, in one line
	Unit   string
	Better string  // Lower or Higher
	Goal   float64 // in Unit, itself good enough; 0: none, the value is for comparison
	// Run takes the samples, at least one, in Unit.
	Run func(ctx context.Context, env Env) ([]float64, error)
	// Summary makes the value of the samples; nil: Median.
	Summary func(samples []float64) float64
	// Absent says why it cannot be measured here, "" if it can; nil: it always can.
	Absent func(env Env) string
	Long   bool // takes minutes: run only if it is named
}

// Env is what a benchmark may use.
type Env struct {
	Dir      string // empty, its own, removed afterwards; short enough for unix sockets
	Programs string // folder of our programs: burst-resume, burstd, …

	notes *[]string
}

// note adds to the printed line, once, what only this run knows.
func (e Env) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if e.notes != nil && !slices.Contains(*e.notes, text) {
		*e.notes = append(*e.notes, text)
	}
}

// Result is a benchmark's outcome, as the JSON file has it.
type Result struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Better string   `json:"better"`
	Goal   *float64 `json:"goal"`  // null: none
	Holds  bool     `json:"holds"` // the goal is met, or there is none
}

// errAbsent is a benchmark whose tool is not on this host: it has no result.
var errAbsent = errors.New("absent")

// ErrUnknown is a name that no benchmark has.
var ErrUnknown = errors.New("no such benchmark")

// Run runs the benchmarks named in only, or all but the long ones, one after the other. It
// prints a line on out for each and writes the results to the file jsonPath,
// unless that is empty. A missed goal is a result and no error. A benchmark
// that fails does not keep the others from running.
func Run(ctx context.Context, only []string, out io.Writer, jsonPath string) error {
	benches, err := pick(All(), only)
	if err != nil {
		return err
	}
	return run(ctx, benches, out, jsonPath)
}

// pick keeps the named benchmarks, in their order in all.
func pick(all []Bench, only []string) ([]Bench, error) {
	if len(only) == 0 {
		return slices.DeleteFunc(slices.Clone(all), func(b Bench) bool { return b.Long }), nil
	}
	var names []string
	for _, b := range all {
		names = append(names, b.Name)
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(b Bench) bool { return !slices.Contains(only, b.Name) }), nil
}

func run(ctx context.Context, benches []Bench, out io.Writer, jsonPath string) error {
	results := []Result{} // [] in JSON, not null
	var failed []error
	for _, b := range benches {
		if err := ctx.Err(); err != nil {
			failed = append(failed, fmt.Errorf("benchmark %s was not run: %w", b.Name, err))
			break
		}
		samples, notes, err := take(ctx, b)
		if errors.Is(err, errAbsent) {
			fmt.Fprintf(out, "%-28s %v\n", b.Name, err)
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("benchmark %s: %w", b.Name, err))
			continue
		}
		r := b.result(samples)
		results = append(results, r)
		if _, err := fmt.Fprintln(out, line(b, r, samples, notes)); err != nil {
			return fmt.Errorf("printing the result of benchmark %s: %w", b.Name, err)
		}
	}
	if jsonPath != "" {
		failed = append(failed, write(jsonPath, results))
	}
	return errors.Join(failed...)
}

// take runs one benchmark in a folder of its own.
func take(ctx context.Context, b Bench) (samples []float64, notes []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding our programs: %w", err)
	}
	dir, err := os.MkdirTemp("", "burst-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("making its folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := Env{Dir: dir, Programs: filepath.Dir(self), notes: &notes}
	if b.Absent != nil {
		if why := b.Absent(env); why != "" {
			return nil, nil, fmt.Errorf("%w: %s", errAbsent, why)
		}
	}
	samples, err = b.Run(ctx, env)
	if err == nil && len(samples) == 0 {
		err = errors.New("it took no samples")
	}
	return samples, notes, err
}

func (b Bench) result(samples []float64) Result {
	summary := b.Summary
	if summary == nil {
		summary = Median
	}
	r := Result{Name: b.Name, Value: round(summary(samples)), Unit: b.Unit, Better: b.Better, Holds: true}
	if b.Goal != 0 {
		r.Goal = &b.Goal
		r.Holds = r.Value <= b.Goal
		if b.Better == Higher {
			r.Holds = r.Value >= b.Goal
		}
	}
	return r
}

// line is what is printed: value, goal, spread, notes, method.
func line(b Bench, r Result, samples []float64, notes []string) string {
	goal := "no goal"
	if r.Goal != nil {
		verdict, bound := "MISSED", "at most"
		if r.Holds {
			verdict = "holds"
		}
		if b.Better == Higher {
			bound = "at least"
		}
		goal = fmt.Sprintf("goal %s %g: %s", bound, *r.Goal, verdict)
	}
	rest := strings.Join(append(notes, b.Method), "; ")
	return fmt.Sprintf("%-28s %8g %-5s %s; min %g, p95 %g, max %g of %d; %s", r.Name, r.Value, r.Unit, goal,
		round(slices.Min(samples)), round(Percentile(samples, 95)), round(slices.Max(samples)), len(samples), rest)
}

// write puts the results where a reader sees all of them or the old ones.
func write(path string, results []Result) error {
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	temp := path + ".tmp"
	if err := os.WriteFile(temp, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("writing the results: %w", err), os.Remove(temp))
	}
	return nil
}
