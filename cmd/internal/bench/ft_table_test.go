package bench

import (
	"strings"
	"testing"
)

var (
	ftTwo    = FTCase{Method: FTNone, Nodes: 2}
	ftOne    = FTCase{Method: FTNone, Nodes: 1}
	ftSignal = FTCase{Method: "signal", Strategy: "preemptive", Nodes: 2, Evicted: true}
	ftDMTCP  = FTCase{Method: "dmtcp", Strategy: "preemptive", Nodes: 1, Evicted: true}
)

func TestRows(t *testing.T) {
	rows := FTRows([]FTRun{
		{FTCase: ftTwo, Seconds: 100, AllUSD: 2}, {FTCase: ftTwo, Seconds: 100, AllUSD: 2},
		{FTCase: ftSignal, Seconds: 102, AllUSD: 0.5, BootSeconds: 1, Restarts: []int{7, 8}}, {FTCase: ftSignal, Seconds: 110, AllUSD: 0.5, BootSeconds: 1, Restarts: []int{7, 8}},
		{FTCase: ftDMTCP, Seconds: 110}, // which has nothing to be compared with
	})
	if len(rows) != 2 || rows[1].Ratio != 1.06 || rows[1].LessBoots != 1.04 || rows[1].Spread != [2]float64{1.02, 1.1} || !rows[1].Holds || *rows[1].Goal != 1.05 || rows[1].Savings != 0.75 {
		t.Errorf("%+v", rows)
	}
}

// The goal of signal grants a boot for each eviction, that of dmtcp does not.
func TestGoals(t *testing.T) {
	for name, tt := range map[string]struct {
		base, of      FTCase
		seconds, boot float64
		value         float64
		holds         bool
	}{
		"signal, with its boots": {ftTwo, ftSignal, 108, 2, 1.04, true},
		"signal, beyond them":    {ftTwo, ftSignal, 110, 2, 1.06, false},
		"dmtcp":                  {ftOne, ftDMTCP, 115, 2, 1.15, true},
		"dmtcp, with its boots":  {ftOne, ftDMTCP, 116, 2, 1.16, false},
	} {
		t.Run(name, func(t *testing.T) {
			rows := FTRows([]FTRun{{FTCase: tt.base, Seconds: 100, AllUSD: 2}, {FTCase: tt.of, Seconds: tt.seconds, BootSeconds: tt.boot, Restarts: []int{1, 2}}})
			goal := map[string]float64{"signal": 1.05, "dmtcp": 1.15}[tt.of.Method]
			want := []Result{{Name: "ft-preemptive-" + tt.of.Method + "-ratio", Value: tt.value, Unit: "ratio", Better: Lower, Goal: &goal, Holds: tt.holds}}
			if d := diff(want, FTResults(rows)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Everything in a row is the median of its runs; what is counted is a run's.
func TestMedians(t *testing.T) {
	run := func(x float64, n int) FTRun {
		return FTRun{FTCase: ftSignal, Seconds: x, StartSeconds: x, BootSeconds: x, IterationSeconds: x, ComputeSeconds: x, CheckpointSeconds: x, IdleSeconds: x, LostSeconds: x,
			USD: x, AllUSD: x, Checkpoints: n, LostIterations: n, Restarts: []int{n, 100 - n}, Checksum: "0x1"}
	}
	rows := FTRows([]FTRun{{FTCase: ftTwo, Seconds: 1, AllUSD: 1}, run(9, 9), run(2, 2), run(4, 3), run(3, 4)})
	want := run(3.5, 3)
	want.Restarts = []int{3, 96}
	if d := diff(want, rows[1].FTRun); d != "" {
		t.Error(d)
	}
}

func TestTable(t *testing.T) {
	signal := FTRun{FTCase: ftSignal, Seconds: 105.24, StartSeconds: 2.51, BootSeconds: 1.5, IterationSeconds: 0.66, Checkpoints: 2, CheckpointSeconds: 0.44, IdleSeconds: 4.56,
		LostIterations: 3, LostSeconds: 1.96, Restarts: []int{67, 134}, USD: 0.00123, AllUSD: 0.00456}
	slow := signal
	slow.Seconds = 111
	dmtcp := FTRun{FTCase: ftDMTCP, Seconds: 120, Restarts: []int{66, 133}, AllUSD: 0.03}
	rows := FTRows([]FTRun{
		{FTCase: ftTwo, Seconds: 100, StartSeconds: 2, IterationSeconds: 0.651, ComputeSeconds: 0.0052, USD: 0.01, AllUSD: 0.02},
		{FTCase: FTCase{Method: FTNone, Nodes: 2, Evicted: true}, Seconds: 200, LostIterations: 200, LostSeconds: 100, Restarts: []int{0, 0}, AllUSD: 0.025},
		signal, slow,
		{FTCase: ftOne, Seconds: 100, AllUSD: 0.01}, dmtcp,
	})
	for name, tt := range map[string]struct {
		print func(*strings.Builder) error
		want  []string // the columns, with | between them
	}{
		"our own": {func(out *strings.Builder) error { return FTTable(out, rows) }, []string{
			"CASE|TIME|RATIO|LESS BOOTS|GOAL|CHECKPOINTS|THEIR TIME|IDLE|LOST|RESTARTED FROM|FIRST START|USD|ALL USD|SAVED",
			"undisturbed|100.0 s|1.000|1.000||0|0.0 s|0.0 s|0, 0.0 s||2.0 s|0.01000|0.02000|",
			"no fault tolerance|200.0 s|2.000|2.000||0|0.0 s|0.0 s|200, 100.0 s|0 0|0.0 s|0.00000|0.02500|-25 %",
			"signal preemptive|108.1 s|1.081 (1.052 to 1.110 of 2)|1.051|less boots 1.05: MISSED|2|0.4 s|4.6 s|3, 2.0 s|67 134|2.5 s|0.00123|0.00456|77 %",
			"undisturbed, one node|100.0 s|1.000|1.000||0|0.0 s|0.0 s|0, 0.0 s||0.0 s|0.00000|0.01000|",
			"dmtcp preemptive|120.0 s|1.200|1.200|ratio 1.15: MISSED|0|0.0 s|0.0 s|0, 0.0 s|66 133|0.0 s|0.00000|0.03000|-200 %",
			"",
			"Of the 0.651 s of an iteration heat computes for 0.0052 s, and sleeps for the rest, but not while it is stopped.",
		}},
		// What the paper states, word for word: Table 8, and items e, f, g and h.
		"beside the paper's": {func(out *strings.Builder) error { return FTPaperTable(out, rows) }, []string{
			"CASE|RATIO|PAPER'S|SAVED|PAPER'S|CHECKPOINTS|PAPER'S|PAPER'S CASE",
			"undisturbed|1.000|1|-|0 %|0|0|no failures",
			"no fault tolerance|2.000|-|-25 %|-|0|-|-",
			"signal preemptive|1.081|-|77 %|-|2|-|-",
			"undisturbed, one node|1.000|1|-|0 %|0|0|no failures",
			"dmtcp preemptive|1.200|-|-200 %|up to 73 %|0|2|DMTCP preemptive",
			"-|-|about 4|-|42 % dearer; 48 % on r6idn.16xlarge|-|20|BLCR periodic",
			"-|-|-|-|-|-|2|BLCR preemptive",
			"-|-|-|-|-|-|20|DMTCP periodic",
			"-|-|-|-|-|-|20|SCR periodic",
			"-|-|-|-|-|-|2|SCR preemptive",
			"-|-|near 1|-|up to 87 %|-|0|ULFM",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := tt.print(&out); err != nil {
				t.Fatal(err)
			}
			if d := diff(tt.want, columns(out.String())); d != "" {
				t.Errorf("%s\n%s", out.String(), d)
			}
		})
	}
}

// columns are a table's lines: a column begins where the one of the first line
// does.
func columns(table string) (lines []string) {
	head, _, _ := strings.Cut(table, "\n")
	var at []int
	for i := range head {
		if head[i] != ' ' && (i == 0 || i > 1 && head[i-2:i] == "  ") {
			at = append(at, i)
		}
	}
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "Of the ") {
			lines = append(lines, line)
			continue
		}
		var cells []string
		for i, from := range at {
			to := len(line)
			if i+1 < len(at) {
				to = min(at[i+1], to)
			}
			cells = append(cells, strings.TrimSpace(line[min(from, to):to]))
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	return lines
}

// Each of our cases stands beside the paper's own, if it has one.
func TestPaperCases(t *testing.T) {
	cases := append([]FTCase{ftTwo, ftOne, {Method: FTNone, Nodes: 2, Evicted: true}}, ftSignal)
	for _, m := range []string{"command", "dmtcp", "scr", "libburst"} {
		for _, s := range []string{ftPeriodic, ftPreemptive} {
			cases = append(cases, FTCase{Method: m, Strategy: s, Nodes: 2, Evicted: true})
		}
	}
	cases = append(cases, FTCase{Method: FTULFM, Nodes: 2}, FTCase{Method: FTULFM, Nodes: 2, Evicted: true})
	got := map[string]string{}
	for _, c := range cases {
		_, _, _, got[c.Name()] = ftPaperOf(c).columns()
	}
	want := map[string]string{
		"undisturbed": "no failures", "undisturbed, one node": "no failures", "no fault tolerance": "-", "signal preemptive": "-", "command periodic": "-", "command preemptive": "-",
		"dmtcp periodic": "DMTCP periodic", "dmtcp preemptive": "DMTCP preemptive", "scr periodic": "SCR periodic", "scr preemptive": "SCR preemptive",
		"libburst periodic": "-", "libburst preemptive": "-", "undisturbed, ulfm": "-", "ulfm": "ULFM",
	}
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
}
