package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// FTSize is how large a run of heat is, and what befalls it.
type FTSize struct {
	Cells      int           // of an edge of the grid
	Iterations int           // at least 3
	Pace       time.Duration // an iteration takes at least so long
	Notice     time.Duration // from an eviction's notice to the instance's end
}

// FTDefault is the size that has figures worth a comparison: the paper's large
// grid and its number of iterations, and more than two minutes undisturbed.
func FTDefault() FTSize {
	return FTSize{Cells: 2048, Iterations: 200, Pace: 650 * time.Millisecond, Notice: 30 * time.Second}
}

// Check says whether a run of this size can be measured.
func (s FTSize) Check() error {
	switch {
	case s.Cells < 2:
		return fmt.Errorf("a grid of %d x %d cells cannot be split", s.Cells, s.Cells)
	case s.Iterations < ftFrequent*(ftEvictions+1):
		return fmt.Errorf("%d iterations are too few: at least %d", s.Iterations, ftFrequent*(ftEvictions+1))
	case s.Pace < 10*time.Millisecond:
		return fmt.Errorf("a pace of %s cannot be followed: at least 10ms", s.Pace)
	case s.Notice < time.Second:
		return fmt.Errorf("a notice of %s is none: at least 1s", s.Notice)
	}
	return nil
}

// interval is the paper's, every 10 iterations, as time.
func (s FTSize) interval() time.Duration {
	return max(ftFrequent*s.Pace, time.Second).Round(10 * time.Millisecond)
}

// lasts is about how long a case takes.
func (s FTSize) lasts(c FTCase) time.Duration {
	const around = 20 * time.Second // a site's start, nodes' boots, the ledger's booking, the site's end
	n := s.Iterations
	if c.Evicted && c.Method == FTNone {
		n *= 2
	}
	d := time.Duration(n)*s.Pace + around
	if c.Evicted {
		d += ftEvictions * 5 * time.Second
	}
	return d
}

const (
	ftEvictions = 2  // at one and two thirds of the iterations
	ftFrequent  = 10 // iterations between periodic checkpoints
	ftRanks     = 2
)

// Strategies, as strategy= has them.
const (
	ftPeriodic   = "periodic"
	ftPreemptive = "preemptive"
)

// FTNone is heat without any fault tolerance, under srun.
const FTNone = "none"

// FTCase is one way of a run.
type FTCase struct {
	Method   string `json:"method"` // as ckpt= has it, or FTNone, or FTULFM
	Strategy string `json:"strategy,omitempty"`
	Nodes    int    `json:"nodes"`
	Evicted  bool   `json:"evicted"` // twice
}

// Name is for people.
func (c FTCase) Name() string {
	switch {
	case !c.Evicted && c.outlives():
		return "undisturbed, " + c.Method
	case !c.Evicted && c.Nodes == 1:
		return "undisturbed, one node"
	case !c.Evicted:
		return "undisturbed"
	case c.Method == FTNone:
		return "no fault tolerance"
	case c.Strategy == "":
		return c.Method
	}
	return c.Method + " " + c.Strategy
}

// Undisturbed is the case that this one is compared with: of heat-ulfm its own, for its
// --pace counts what heat's does not.
func (c FTCase) Undisturbed() FTCase {
	if c.outlives() {
		return FTCase{Method: FTULFM, Nodes: c.Nodes}
	}
	return FTCase{Method: FTNone, Nodes: c.Nodes}
}

// ftMethods are the methods that are measured, and what they need. DMTCP
// restores MPI on one node only.
var ftMethods = []ftMethod{
	{"signal", 2, "", 1.05, true},
	{"command", 2, "", 0, false},
	{"dmtcp", 1, "dmtcp_launch", 1.15, false},
	{"scr", 2, "scr_halt", 1.05, true},
	{"libburst", 2, "", 1.05, true},
}

// ftHeats are the methods with a heat of their own.
var ftHeats = map[string]string{"scr": "heat-scr", "libburst": "heat-libburst", FTULFM: "heat-ulfm"}

type ftMethod struct {
	name  string
	nodes int
	tool  string  // a program on PATH; "": none
	goal  float64 // of its preemptive case's ratio; 0: none
	boots bool    // the goal is of the time without a node's boot for each eviction
}

// FTCases are all cases that can run here, each after the one that it is
// compared with, and what cannot, with the reason.
func FTCases(env Env) (cases []FTCase, absent []string) {
	cases = []FTCase{{Method: FTNone, Nodes: 2}, {Method: FTNone, Nodes: 2, Evicted: true}}
	single := false
	for _, m := range ftMethods {
		if why := ftAbsent(env, m.name, m.tool); why != "" {
			absent = append(absent, why)
			continue
		}
		if m.nodes == 1 && !single {
			cases = append(cases, FTCase{Method: FTNone, Nodes: 1})
			single = true
		}
		for _, s := range []string{ftPeriodic, ftPreemptive} {
			cases = append(cases, FTCase{Method: m.name, Strategy: s, Nodes: m.nodes, Evicted: true})
		}
	}
	if why := ftAbsent(env, FTULFM, ""); why != "" {
		return cases, append(absent, why)
	}
	cases = append(cases, FTCase{Method: FTULFM, Nodes: 2}, FTCase{Method: FTULFM, Nodes: 2, Evicted: true})
	return cases, absent
}

// ftAbsent says why a method cannot be measured here; "" if it can.
func ftAbsent(env Env, method, tool string) string {
	if tool == "" && ftHeats[method] == "" {
		return ""
	}
	if _, err := exec.LookPath(tool); tool != "" && err != nil {
		return fmt.Sprintf("NOT MEASURED: %s: %s is not on PATH", method, tool)
	}
	if _, err := os.Stat(env.heat(method)); err != nil && method == FTULFM {
		return fmt.Sprintf("NOT MEASURED: %s: %s is not there; `make deps-ulfm build` builds it", method, env.heat(method))
	} else if err != nil {
		return fmt.Sprintf("NOT MEASURED: %s: %s is not there; `make build` builds it where its libraries are", method, env.heat(method))
	}
	return ""
}

// heat is the program that is run under a method.
func (e Env) heat(method string) string {
	return filepath.Join(filepath.Dir(e.Programs), cmp.Or(ftHeats[method], "heat"))
}

// FTOptions are for FT.
type FTOptions struct {
	Size  FTSize
	Cases []FTCase
	Runs  int // of each case, in turns
	// Say is told what is under way.
	Say func(format string, args ...any)
}

// FT runs the cases one after the other, each with a site of its own, and
// returns the runs of those that went well. Why one did not is said; the error
// names those.
func FT(ctx context.Context, env Env, o FTOptions) (runs []FTRun, err error) {
	if err := o.Size.Check(); err != nil {
		return nil, err
	}
	left := time.Duration(0)
	for _, c := range o.Cases {
		left += time.Duration(o.Runs) * o.Size.lasts(c)
	}
	o.Say("%d runs of heat, about %s in all", o.Runs*len(o.Cases), left.Round(time.Minute))
	checksum := ""
	var failed []string
	for turn := range o.Runs {
		for i, c := range o.Cases {
			if err := ctx.Err(); err != nil {
				return runs, context.Cause(ctx)
			}
			n := turn*len(o.Cases) + i + 1
			o.Say("%d of %d: %s: about %s; until all is done %s", n, o.Runs*len(o.Cases), c.Name(), o.Size.lasts(c).Round(time.Second), left.Round(time.Second))
			left -= o.Size.lasts(c)
			r, err := ftMeasure(ctx, env, ftTask{c, o.Size, fmt.Sprint("f", n), o.Say})
			if err == nil {
				checksum, err = ftSame(checksum, r)
			}
			if err != nil {
				failed = append(failed, c.Name())
				o.Say("%s: failed: %v", c.Name(), err)
				continue
			}
			runs = append(runs, r)
			o.Say("%s: %.1f s, %d checkpoints, restarted from iterations %v", c.Name(), r.Seconds, r.Checkpoints, r.Restarts)
		}
	}
	if len(failed) > 0 {
		err = fmt.Errorf("failed: %s: see above", strings.Join(failed, ", "))
	}
	return runs, err
}

// ftSame holds a run's result to that of the first.
func ftSame(want string, r FTRun) (string, error) {
	if want == "" {
		return r.Checksum, nil
	}
	if r.Checksum != want {
		return want, fmt.Errorf("its checksum is %s, and %q undisturbed", r.Checksum, want)
	}
	return want, nil
}
