package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/bench"
)

var cases = []bench.FTCase{
	{Method: "none", Nodes: 2},
	{Method: "none", Nodes: 2, Evicted: true},
	{Method: "signal", Strategy: "periodic", Nodes: 2, Evicted: true},
	{Method: "signal", Strategy: "preemptive", Nodes: 2, Evicted: true},
	{Method: "none", Nodes: 1},
	{Method: "dmtcp", Strategy: "periodic", Nodes: 1, Evicted: true},
	{Method: "dmtcp", Strategy: "preemptive", Nodes: 1, Evicted: true},
	{Method: "ulfm", Nodes: 2},
	{Method: "ulfm", Nodes: 2, Evicted: true},
}

func TestOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		o    options
		want []int // of cases
	}{
		"all":                {options{}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		"a method":           {options{methods: []string{"dmtcp"}}, []int{4, 5, 6}},
		"methods":            {options{methods: []string{"signal", "none"}}, []int{0, 1, 2, 3}},
		"a strategy":         {options{strategies: []string{"preemptive"}}, []int{0, 1, 3, 4, 6, 7, 8}},
		"one with its own":   {options{methods: []string{"ulfm"}}, []int{7, 8}},
		"both":               {options{methods: []string{"signal"}, strategies: []string{"periodic"}}, []int{0, 2}},
		"one that is absent": {options{methods: []string{"scr"}}, nil},
		"a wrong strategy":   {options{methods: []string{"signal"}, strategies: []string{"often"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := only(cases, tt.o)
			var want []bench.FTCase
			for _, i := range tt.want {
				want = append(want, cases[i])
			}
			if !reflect.DeepEqual(got, want) || (err == nil) != (want != nil) {
				t.Errorf("%v: %+v, want %+v", err, got, want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	good := options{runs: 1, size: bench.FTDefault()}
	parsed := func(args ...string) *flag.FlagSet {
		f := flag.NewFlagSet("bench-ft", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := check(parsed(), good); err != nil {
		t.Error(err)
	}
	if err := check(parsed("signal"), good); err == nil {
		t.Error("a word that is no option is accepted")
	}
	none, small := good, good
	none.runs, small.size.Iterations = 0, 5
	if check(parsed(), none) == nil || check(parsed(), small) == nil {
		t.Error("no runs, or too few iterations, are accepted")
	}
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var rows []bench.FTRow
	for i, c := range cases {
		rows = append(rows, bench.FTRow{FTRun: bench.FTRun{FTCase: c, Seconds: float64(100 + i), IdleSeconds: 5, LostSeconds: 1}})
	}
	if err := errors.Join(write(dir, report{Method: "as said", Cases: rows}), draw(dir, rows)); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, "bench-ft."+name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var r report
	if err := json.Unmarshal(read("json"), &r); err != nil || len(r.Cases) != len(rows) || r.Cases[6].Method != "dmtcp" || r.Cases[6].Seconds != 106 {
		t.Errorf("%+v, %v", r, err)
	}
	if img, err := png.Decode(bytes.NewReader(read("png"))); err != nil || img.Bounds().Dx() < 300 {
		t.Errorf("the PNG: %v", err)
	}
	svg := read("svg")
	for _, c := range cases {
		if !strings.Contains(string(svg), c.Name()) {
			t.Errorf("the SVG has no %q", c.Name())
		}
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
