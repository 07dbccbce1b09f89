// Command benchft runs heat under each way of fault tolerance through two
// evictions, as the experiment of HPC@Cloud's paper does, and prints and draws
// what it took: `make bench-ft`. It is a program of its own for the sake of the
// drawing, which has no place in what users install.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/bench"
)

type options struct {
	programs, out string
	methods       []string // empty: all
	strategies    []string // empty: all
	runs          int
	size          bench.FTSize
}

func main() {
	o := options{size: bench.FTDefault()}
	f := flag.NewFlagSet("bench-ft", flag.ContinueOnError)
	f.StringVar(&o.programs, "programs", "build/bin", "`folder` of burstd and the others; heat is in the one above")
	f.StringVar(&o.out, "out", "build", "`folder` for bench-ft.json, bench-ft.svg and bench-ft.png")
	f.Func("methods", "only these, as in `signal,dmtcp`, and without none not the run that starts anew", list(&o.methods))
	f.Func("strategies", "only `periodic` or preemptive", list(&o.strategies))
	f.IntVar(&o.runs, "runs", 1, "so many runs of each case, in turns")
	f.IntVar(&o.size.Cells, "cells", o.size.Cells, "of an edge of the grid")
	f.IntVar(&o.size.Iterations, "iterations", o.size.Iterations, "in all")
	f.DurationVar(&o.size.Pace, "pace", o.size.Pace, "an iteration takes at least so long")
	f.DurationVar(&o.size.Notice, "notice", o.size.Notice, "from an eviction's notice to the instance's end")
	switch err := f.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	if err := check(f, o); err != nil {
		fmt.Fprintf(os.Stderr, "bench-ft: error: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "bench-ft: error: %v\n", err)
		os.Exit(1)
	}
}

func check(f *flag.FlagSet, o options) error {
	if f.NArg() > 0 {
		return fmt.Errorf("%q is not an option: see --help", f.Arg(0))
	}
	if o.runs < 1 || o.runs > 100 {
		return fmt.Errorf("--runs is %d, not a number from 1 to 100", o.runs)
	}
	return o.size.Check()
}

// report is bench-ft.json.
type report struct {
	Method string             `json:"method"`
	Absent []string           `json:"absent"`
	Size   bench.FTSize       `json:"size"`
	Cases  []bench.FTRow      `json:"cases"`
	Paper  []bench.FTPaperRow `json:"paper"`      // what it states, as it words it
	Ratios []bench.Result     `json:"benchmarks"` // as `burst bench` has them
}

// run measures, and prints and writes what it has, even if a case failed.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "burst-ft-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs, err := filepath.Abs(o.programs)
	if err != nil {
		return err
	}
	env := bench.Env{Dir: dir, Programs: programs}
	cases, absent := bench.FTCases(env)
	if cases, err = only(cases, o); err != nil {
		return err
	}
	for _, a := range absent {
		fmt.Fprintln(out, a)
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%8s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}
	runs, failed := bench.FT(ctx, env, bench.FTOptions{Size: o.size, Cases: cases, Runs: o.runs, Say: say})
	rows := bench.FTRows(runs)
	if len(rows) == 0 {
		return failed
	}
	fmt.Fprintf(out, "\n%s\n\n", bench.FTMethod(o.size))
	if err := bench.FTTable(out, rows); err != nil {
		return errors.Join(failed, err)
	}
	fmt.Fprintf(out, "\n%s\n\n", bench.FTPaperNote)
	if err := bench.FTPaperTable(out, rows); err != nil {
		return errors.Join(failed, err)
	}
	r := report{bench.FTMethod(o.size), append([]string{}, absent...), o.size, rows, bench.FTPaper, bench.FTResults(rows)}
	return errors.Join(failed, write(o.out, r), draw(o.out, rows))
}

// list is a flag's value, words between commas.
func list(into *[]string) func(string) error {
	return func(text string) error {
		*into = strings.Split(text, ",")
		return nil
	}
}

// only keeps the cases that are asked for, and what they are compared with.
func only(cases []bench.FTCase, o options) ([]bench.FTCase, error) {
	wanted := func(c bench.FTCase) bool {
		return c.Evicted && (len(o.methods) == 0 || slices.Contains(o.methods, c.Method)) &&
			(c.Strategy == "" || len(o.strategies) == 0 || slices.Contains(o.strategies, c.Strategy))
	}
	for _, m := range o.methods {
		if !slices.ContainsFunc(cases, func(c bench.FTCase) bool { return c.Method == m && wanted(c) }) {
			return nil, fmt.Errorf("%q cannot be measured here", m)
		}
	}
	base := map[bench.FTCase]bool{}
	for _, c := range cases {
		if wanted(c) {
			base[c.Undisturbed()] = true
		}
	}
	kept := slices.DeleteFunc(slices.Clone(cases), func(c bench.FTCase) bool { return !wanted(c) && !base[c] })
	if len(kept) == 0 {
		return nil, errors.New("no case is left")
	}
	return kept, nil
}

func write(dir string, r report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "bench-ft.json")
	if err := os.WriteFile(path+".tmp", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
