package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseStamp(t *testing.T) {
	tests := []struct {
		name, text string
		want       time.Time
		bad        bool
	}{
		{"date", "1700000000.012345678", time.Unix(1700000000, 12345678), false},
		{"cut off", "1700000000.0123", time.Time{}, true},
		{"no fraction", "1700000000", time.Time{}, true},
		{"a date without %N", "1700000000.%N", time.Time{}, true},
		{"empty", "", time.Time{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStamp(tt.text)
			if !got.Equal(tt.want) || (err != nil) != tt.bad {
				t.Errorf("%v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestParseMemory(t *testing.T) {
	got, err := parseMemory("Name:\tburst\nVmPeak:\t 1234567 kB\nVmHWM:\t   31250 kB\nVmRSS:\t    1000 kB\n", "VmHWM")
	if err != nil || got != 32 {
		t.Errorf("%g MB, %v, want 32", got, err)
	}
	for _, status := range []string{"", "VmHWM:\tmuch kB\n"} {
		if got, err := parseMemory(status, "VmHWM"); err == nil {
			t.Errorf("%q gives %g", status, got)
		}
	}
	if mb, err := peakRSS(); err != nil || mb < 1 || mb > 10_000 {
		t.Errorf("this process peaked at %g MB, %v", mb, err)
	}
}

// TestOnce: what several benchmarks share is measured once, its error too.
func TestOnce(t *testing.T) {
	broken := errors.New("broken")
	runs := 0
	measure := once(func(context.Context, Env) (int, error) { runs++; return 7, broken })
	for range 2 {
		if v, err := measure(t.Context(), Env{}); v != 7 || !errors.Is(err, broken) {
			t.Errorf("%d, %v", v, err)
		}
	}
	if runs != 1 {
		t.Errorf("measured %d times", runs)
	}
}

func TestNotes(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []Bench{{Name: "noted", Method: "stopwatch", Unit: "s", Better: Lower,
		Run: func(_ context.Context, env Env) ([]float64, error) {
			for range 2 {
				env.note("%d reads", 7)
			}
			return []float64{1}, nil
		}}}, &out, "")
	if err != nil || !strings.HasSuffix(out.String(), "of 1; 7 reads; stopwatch\n") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	Env{}.note("nobody listens")
}
