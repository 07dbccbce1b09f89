package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// ulfmSize is how much is measured.
type ulfmSize struct {
	pairs      int // of runs, one of them disturbed
	iterations int
	pace       time.Duration // of an iteration
}

// ulfmFull is what the benchmark measures: runs of 45 s.
var ulfmFull = ulfmSize{pairs: 5, iterations: 1500, pace: 30 * time.Millisecond}

// ulfmNotice is how long before it goes a node's notice comes; a real cloud's is longer.
const ulfmNotice = 20 * time.Second

// ulfmEvictions are at a third and at two thirds of the iterations.
const ulfmEvictions = 2

// ulfmBenches is heat-ulfm through two evictions.
func ulfmBenches(size ulfmSize) []Bench {
	return []Bench{{
		Name: "ulfm-two-evictions-ratio",
		Method: fmt.Sprintf("heat-ulfm, 8 ranks on 4 nodes of a site on this host, %d iterations of %s at least: its own time when two nodes get a notice of %s, after a third and two thirds, and nodes join in their place, over its time undisturbed; that fewer nodes compute slower is not in it, for they share this host; median of %d pairs, of which each second one has the disturbed run first, each with the same checksum and no iteration done twice",
			size.iterations, size.pace, ulfmNotice, size.pairs),
		Unit: "ratio", Better: Lower, Goal: 1.1, Long: true,
		Absent: func(env Env) string {
			if _, err := os.Stat(filepath.Join(filepath.Dir(env.Programs), "heat-ulfm")); err != nil {
				return "no heat-ulfm is here: make deps-ulfm build"
			}
			return ""
		},
		Run: func(ctx context.Context, env Env) ([]float64, error) { return measureULFM(ctx, env, size) },
	}}
}

func measureULFM(ctx context.Context, env Env, size ulfmSize) (ratios []float64, err error) {
	r, err := rig.Start(ctx, rig.Options{Dir: filepath.Join(env.Dir, "s"), Bin: env.Programs, Nodes: 8, Gate: true,
		SlurmExtra: "SchedulerParameters=batch_sched_delay=1,permit_job_expansion\n"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w := ulfmWorld{Site: r, built: filepath.Dir(env.Programs), size: size}
	var alone, disturbed []float64
	for i := range size.pairs {
		var took [2]float64 // undisturbed, and with evictions
		for k := range took {
			which := (i + k) % 2
			if took[which], err = w.run(ctx, which*ulfmEvictions); err != nil {
				return nil, fmt.Errorf("pair %d, with %d evictions: %w", i+1, which*ulfmEvictions, err)
			}
		}
		alone, disturbed, ratios = append(alone, took[0]), append(disturbed, took[1]), append(ratios, took[1]/took[0])
	}
	env.note("%.1f s undisturbed, %.1f s with two evictions; the ratios are %.3f; ranks moved %v times, off a node or onto one that joined", Median(alone), Median(disturbed), ratios, w.moves)
	return ratios, nil
}

// ulfmWorld is a site on which heat-ulfm runs.
type ulfmWorld struct {
	*rig.Site
	built string // folder of heat-ulfm, ulfm-run and the Open MPI
	size  ulfmSize
	sum   string // what the first run's checksum was
	moves []int  // of ranks in each run that was disturbed
}

const ulfmScript = `#!/bin/sh
#SBATCH --nodes=4 --ntasks-per-node=2 --no-kill --no-requeue --output=ulfm-%%j
exec %[1]s/ulfm-run --mpi %[1]s/ulfm --poll 0.5 %[1]s/heat-ulfm -n 256 -i %[2]d --pace %[3]d --trace
`

var (
	ulfmStep = regexp.MustCompile(`(?m)^heat: step (\d+)$`)
	ulfmMove = regexp.MustCompile(`(?m)^heat: (plan \d+: moved|lost) .*, on (.+)$`)
	ulfmDone = regexp.MustCompile(`(?m)^heat: done .*checksum=(\S+) seconds=(\S+) repeated=(\d+)$`)
)

// run is one run with so many evictions; it returns heat's seconds.
func (w *ulfmWorld) run(ctx context.Context, evictions int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	id, err := w.Submit(ctx, fmt.Sprintf(ulfmScript, w.built, w.size.iterations, w.size.pace.Milliseconds()))
	if err != nil {
		return 0, err
	}
	path := filepath.Join(w.Work, fmt.Sprint("ulfm-", id))
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for gone := (ulfmGone{}); ; {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("job %d: %w", id, context.Cause(ctx))
		case <-tick.C:
		}
		out, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		if n := len(gone.nodes); n < evictions && len(ulfmStep.FindAll(out, -1)) > w.size.iterations*(n+1)/(evictions+1) {
			if err := w.evict(ctx, id, out, &gone); err != nil {
				return 0, err
			}
		}
		if m := ulfmDone.FindSubmatch(out); m != nil {
			all := len(gone.nodes) == evictions
			if all {
				err = w.moved(out, gone)
			}
			if err != nil {
				return 0, err
			}
			return w.judge(m, all)
		}
		if j, err := w.Job(ctx, id); err != nil || j.State != "PENDING" && j.State != "CONFIGURING" && j.State != "RUNNING" {
			return 0, fmt.Errorf("job %d is %s and has not said that it is done, %v: %.2000s", id, j.State, err, ulfmStep.ReplaceAll(out, nil))
		}
	}
}

// ulfmGone is what was evicted of a run.
type ulfmGone struct {
	nodes  []string
	places ulfmPlaces
}

// evict gives a notice to the last of the job's nodes that has ranks and has had none,
// if there is one yet.
func (w *ulfmWorld) evict(ctx context.Context, id uint32, out []byte, gone *ulfmGone) error {
	j, err := w.Job(ctx, id)
	if err != nil {
		return err
	}
	nodes, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return err
	}
	if len(gone.nodes) == 0 {
		gone.places.at = nodes
	}
	at := gone.places.after(out).at
	for _, node := range slices.Backward(nodes) {
		if node != j.BatchHost && slices.Contains(at, node) && !slices.Contains(gone.nodes, node) {
			gone.nodes = append(gone.nodes, node)
			return w.Control.Evict(node, ulfmNotice)
		}
	}
	return nil
}

// moved says whether the ranks have left each node that was evicted, by what heat has said.
func (w *ulfmWorld) moved(out []byte, gone ulfmGone) error {
	if len(gone.nodes) == 0 {
		return nil
	}
	p := gone.places.after(out)
	w.moves = append(w.moves, p.moves)
	return p.haveLeft(gone.nodes)
}

// ulfmPlaces follows where ranks are, by what heat says of each move and of each loss.
type ulfmPlaces struct {
	at    []string // nodes that have ranks
	left  []string // those that had ranks before a move and none after it
	moves int
}

// add takes the nodes of all ranks after a move, or after a loss: a node that was lost
// has not been left.
func (p *ulfmPlaces) add(what, on string) {
	to := strings.Fields(on)
	if what != "lost" {
		p.moves++
		for _, node := range p.at {
			if !slices.Contains(to, node) {
				p.left = append(p.left, node)
			}
		}
	}
	p.at = to
}

// after are the places after all that heat has said.
func (p ulfmPlaces) after(out []byte) ulfmPlaces {
	for _, m := range ulfmMove.FindAllSubmatch(out, -1) {
		p.add(string(m[1]), string(m[2]))
	}
	return p
}

// haveLeft wants the nodes to be different ones, and each to have lost its ranks.
func (p *ulfmPlaces) haveLeft(nodes []string) error {
	for i, node := range nodes {
		if slices.Contains(nodes[:i], node) || !slices.Contains(p.left, node) {
			return fmt.Errorf("the nodes %v were to go, and the ranks have left %v", nodes, p.left)
		}
	}
	return nil
}

// judge reads checksum, seconds and iterations done twice.
func (w *ulfmWorld) judge(m [][]byte, disturbed bool) (float64, error) {
	sum, twice := string(m[1]), string(m[3])
	if w.sum == "" {
		w.sum = sum
	}
	switch {
	case !disturbed:
		return 0, errors.New("the run was over before its evictions")
	case sum != w.sum:
		return 0, fmt.Errorf("checksum %s, and %s before", sum, w.sum)
	case twice != "0":
		return 0, fmt.Errorf("%s iterations were done twice", twice)
	}
	return strconv.ParseFloat(string(m[2]), 64)
}
