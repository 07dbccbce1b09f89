package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func give(samples ...float64) func(context.Context, Env) ([]float64, error) {
	return func(context.Context, Env) ([]float64, error) { return samples, nil }
}

func ptr(v float64) *float64 { return &v }

func TestResults(t *testing.T) {
	tests := []struct {
		name  string
		bench Bench
		want  Result
		line  string
	}{
		{"lower holds",
			Bench{Name: "fast", Method: "stopwatch", Unit: "s", Better: Lower, Goal: 3, Run: give(5, 1, 3)},
			Result{"fast", 3, "s", Lower, ptr(3), true},
			"fast                                3 s     goal at most 3: holds; min 1, p95 5, max 5 of 3; stopwatch"},
		{"lower missed",
			Bench{Name: "fast", Unit: "s", Better: Lower, Goal: 3, Run: give(4, 5)},
			Result{"fast", 4.5, "s", Lower, ptr(3), false},
			"goal at most 3: MISSED"},
		{"higher holds",
			Bench{Name: "much", Unit: "MB/s", Better: Higher, Goal: 3, Run: give(4)},
			Result{"much", 4, "MB/s", Higher, ptr(3), true},
			"goal at least 3: holds"},
		{"higher missed",
			Bench{Name: "much", Unit: "MB/s", Better: Higher, Goal: 3, Run: give(2)},
			Result{"much", 2, "MB/s", Higher, ptr(3), false},
			"goal at least 3: MISSED"},
		{"no goal",
			Bench{Name: "slow", Unit: "s", Better: Lower, Run: give(99)},
			Result{"slow", 99, "s", Lower, nil, true},
			"99 s     no goal; min 99, p95 99, max 99 of 1"},
		{"another summary",
			Bench{Name: "worst", Unit: "s", Better: Lower, Goal: 3, Summary: Max, Run: give(1, 1, 4)},
			Result{"worst", 4, "s", Lower, ptr(3), false},
			"MISSED"},
		{"rounded",
			Bench{Name: "pi", Unit: "s", Better: Lower, Goal: 3.142, Run: give(3.14159265)},
			Result{"pi", 3.142, "s", Lower, ptr(3.142), true},
			"3.142 s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			file := filepath.Join(t.TempDir(), "new", "bench.json")
			if err := run(t.Context(), []Bench{tt.bench}, &out, file); err != nil {
				t.Fatal(err)
			}
			if d := diff([]Result{tt.want}, readResults(t, file)); d != "" {
				t.Errorf("results (-want +got):\n%s", d)
			}
			if !strings.Contains(out.String(), tt.line) || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("printed %q, want one line with %q", out.String(), tt.line)
			}
		})
	}
}

func readResults(t *testing.T, file string) []Result {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatal(err)
	}
	return results
}

// TestFailure: one that fails, or takes no samples, does not stop the others.
func TestFailure(t *testing.T) {
	broken := errors.New("broken")
	file := filepath.Join(t.TempDir(), "bench.json")
	var out bytes.Buffer
	err := run(t.Context(), []Bench{
		{Name: "bad", Run: func(context.Context, Env) ([]float64, error) { return nil, broken }},
		{Name: "empty", Run: give()},
		{Name: "good", Unit: "s", Better: Lower, Run: give(1)},
	}, &out, file)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "benchmark bad: broken") {
		t.Errorf("error %v, want the bad one's", err)
	}
	if !strings.Contains(err.Error(), "benchmark empty: it took no samples") {
		t.Errorf("error %v, want the empty one's too", err)
	}
	if got := readResults(t, file); len(got) != 1 || got[0].Name != "good" {
		t.Errorf("results %+v, want the good one's only", got)
	}
}

// TestStopped: what was measured before the end is kept.
func TestStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	file := filepath.Join(t.TempDir(), "bench.json")
	err := run(ctx, []Bench{
		{Name: "first", Unit: "s", Better: Lower, Run: func(context.Context, Env) ([]float64, error) { stop(); return []float64{1}, nil }},
		{Name: "second", Run: give(1)},
	}, &bytes.Buffer{}, file)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "second was not run") {
		t.Errorf("error %v", err)
	}
	if got := readResults(t, file); len(got) != 1 {
		t.Errorf("results %+v, want the first one's", got)
	}
}

// TestEnv: a benchmark's folder is there, and gone afterwards.
func TestEnv(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var dir string
	err := run(t.Context(), []Bench{{Name: "env", Run: func(_ context.Context, env Env) ([]float64, error) {
		dir = env.Dir
		if _, err := os.Stat(env.Programs); err != nil {
			return nil, err
		}
		return []float64{1}, os.WriteFile(filepath.Join(dir, "left"), nil, 0o600)
	}}}, &bytes.Buffer{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestPick(t *testing.T) {
	all := []Bench{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	tests := []struct {
		name string
		only []string
		want string
		err  error
	}{
		{"all", nil, "a b c", nil},
		{"some, in our order", []string{"c", "a"}, "a c", nil},
		{"unknown", []string{"a", "x"}, "", ErrUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := pick(all, tt.only)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			var names []string
			for _, b := range got {
				names = append(names, b.Name)
			}
			if strings.Join(names, " ") != tt.want {
				t.Errorf("picked %v, want %s", names, tt.want)
			}
		})
	}
}

func TestStatistics(t *testing.T) {
	twenty := []float64{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	tests := []struct {
		name              string
		samples           []float64
		median, p95, most float64
	}{
		{"one", []float64{7}, 7, 7, 7},
		{"two", []float64{4, 2}, 3, 4, 4},
		{"twenty", twenty, 10.5, 19, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := []float64{Median(tt.samples), Percentile(tt.samples, 95), Max(tt.samples)}
			if d := diff([]float64{tt.median, tt.p95, tt.most}, got); d != "" {
				t.Errorf("median, p95, maximum (-want +got):\n%s", d)
			}
		})
	}
	if twenty[0] != 20 {
		t.Error("the samples were sorted in place")
	}
}

// TestAll: names are unique and nothing is missing.
func TestAll(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range All() {
		if seen[b.Name] || b.Name == "" {
			t.Errorf("name %q is empty or given twice", b.Name)
		}
		seen[b.Name] = true
		if b.Method == "" || strings.Contains(b.Method, "\n") || b.Unit == "" || b.Run == nil || b.Better != Lower && b.Better != Higher {
			t.Errorf("%s lacks method, unit, direction or run", b.Name)
		}
	}
}

func TestHostlist100k(t *testing.T) {
	samples, err := hostlist100k().Run(t.Context(), Env{})
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) < 5 {
		t.Errorf("%d samples, want at least 5", len(samples))
	}
}

// What takes long is run if it is named; what is absent has no result, and is no
// failure.
func TestLongAndAbsent(t *testing.T) {
	long := Bench{Name: "long", Long: true, Run: give(1)}
	absent := Bench{Name: "absent", Run: give(2), Absent: func(Env) string { return "no such tool" }}
	all := []Bench{long, absent}
	if got, err := pick(all, nil); err != nil || len(got) != 1 || got[0].Name != "absent" {
		t.Errorf("without names: %v, %v", got, err)
	}
	got, err := pick(all, []string{"long", "absent"})
	if err != nil || len(got) != 2 {
		t.Fatalf("by name: %v, %v", got, err)
	}
	var out bytes.Buffer
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := run(t.Context(), got, &out, path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	if err := json.Unmarshal(text, &results); err != nil || len(results) != 1 || results[0].Name != "long" || !strings.Contains(out.String(), "no such tool") {
		t.Errorf("%v, %s, %v", results, out.String(), err)
	}
}

// diff shows how got is not what was wanted; "" if it is. go-cmp would do it better, and
// has the linker keep every call of every cloud's client.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("- %+v\n+ %+v", want, got)
}
