package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// FTPaperRow is what HPC@Cloud's paper states, in its Table 8 or in words, of one
// of its cases. Its times and costs are in Figure 13, a drawing without numbers.
type FTPaperRow struct {
	Case        string `json:"case"`
	Checkpoints int    `json:"checkpoints"`
	Ratio       string `json:"ratio,omitempty"` // of the time, to the run without faults; "": not stated
	Saved       string `json:"saved,omitempty"` // to the run without faults on demand; "": not stated

	method, strategy string // ours, "": none
}

// FTPaper are the paper's cases, in the order of its Table 8.
var FTPaper = []FTPaperRow{
	{"no failures", 0, "1", "0 %", FTNone, ""},
	{"BLCR periodic", 20, "about 4", "42 % dearer; 48 % on r6idn.16xlarge", "", ""},
	{"BLCR preemptive", 2, "", "", "", ""},
	{"DMTCP periodic", 20, "", "", "dmtcp", ftPeriodic},
	{"DMTCP preemptive", 2, "", "up to 73 %", "dmtcp", ftPreemptive},
	{"SCR periodic", 20, "", "", "scr", ftPeriodic},
	{"SCR preemptive", 2, "", "", "scr", ftPreemptive},
	{"ULFM", 0, "near 1", "up to 87 %", FTULFM, ""},
}

// FTPaperNote says what the paper's figures are of.
const FTPaperNote = `Beside them what HPC@Cloud's paper states of its own (5.3, Table 8, and the summary's items e to h), "-" where it states nothing: its other times and costs are in a drawing
without numbers. There, too: heat, 2048 x 2048 cells, 200 iterations, one instance ended at 1/3 and at 2/3 of them, periodic every 10 iterations; but on 8 instances of AWS or
one large one, at their prices, with their boots, and with all of an iteration computed. So the ratios cannot be compared digit by digit.`

// ftPaperOf is the paper's case that is as ours, nil if none is.
func ftPaperOf(c FTCase) *FTPaperRow {
	if c.Evicted && c.Method == FTNone || !c.Evicted && c.outlives() {
		return nil
	}
	for i, p := range FTPaper {
		if p.method == c.Method && p.strategy == c.Strategy {
			return &FTPaper[i]
		}
	}
	return nil
}

// FTPaperTable prints the rows beside the paper's, and the paper's others.
func FTPaperTable(out io.Writer, rows []FTRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tRATIO\tPAPER'S\tSAVED\tPAPER'S\tCHECKPOINTS\tPAPER'S\tPAPER'S CASE")
	have := map[*FTPaperRow]bool{}
	for _, r := range rows {
		p := ftPaperOf(r.FTCase)
		have[p] = true
		ratio, saved, checkpoints, name := p.columns()
		fmt.Fprintf(w, "%s\t%.3f\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Name(), r.Ratio, ratio, dash(r.saved()), saved, r.Checkpoints, checkpoints, name)
	}
	for i := range FTPaper {
		if p := &FTPaper[i]; !have[p] {
			ratio, saved, checkpoints, name := p.columns()
			fmt.Fprintf(w, "-\t-\t%s\t-\t%s\t-\t%s\t%s\n", ratio, saved, checkpoints, name)
		}
	}
	return w.Flush()
}

func (p *FTPaperRow) columns() (ratio, saved, checkpoints, name string) {
	if p == nil {
		return "-", "-", "-", "-"
	}
	return dash(p.Ratio), dash(p.Saved), fmt.Sprint(p.Checkpoints), p.Case
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
