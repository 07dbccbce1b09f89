package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// ftTrace is what a job's output tells, line by line as it comes.
type ftTrace struct {
	attempts    []ftAttempt
	gaps        []float64 // seconds from one iteration to the next
	again       int       // iterations that an attempt told of once more
	gone        ulfmGone  // of a job that outlives its nodes
	checksum    string
	checkpoints int           // in all attempts, as burst-srun says
	writing     time.Duration // them
	iterations  int           // heat's own count at its end
	compute     float64       // seconds of an iteration that it computed, on average
}

// ftAttempt is one start of the batch script.
type ftAttempt struct {
	began, ended time.Time // by the script; zero: it was killed
	code         int
	first, last  ftMark
}

// ftMark is when an iteration was done.
type ftMark struct {
	iteration int
	at        time.Time
}

// ftBegins and ftEnds are what the script says, with the time and the exit code.
const (
	ftBegins = "the attempt begins at"
	ftEnds   = "the attempt ends with"
)

var (
	ftBeginsLine  = regexp.MustCompile(`^` + ftBegins + ` (\S+)$`)
	ftEndsLine    = regexp.MustCompile(`^` + ftEnds + ` (\d+) at (\S+)$`)
	iterationLine = regexp.MustCompile(`heat: iteration (\d+) of `)
	doneLine      = regexp.MustCompile(`heat: done iterations=(\d+) checksum=(0x[0-9a-f]{16}) .*\bcompute=([0-9.]+)$`)
	summaryLine   = regexp.MustCompile(`burst-srun: job \S+ step \S+: ran \S+, (\d+) checkpoints \((\S+)\), \d+ restarts, `)
)

// add takes a line that was read at some time.
func (t *ftTrace) add(at time.Time, line string) (err error) {
	if m := ftBeginsLine.FindStringSubmatch(line); m != nil {
		var a ftAttempt
		a.began, err = parseStamp(m[1])
		t.attempts = append(t.attempts, a)
		return err
	}
	if m := doneLine.FindStringSubmatch(line); m != nil {
		t.checksum = m[2]
		if t.iterations, err = strconv.Atoi(m[1]); err == nil {
			t.compute, err = strconv.ParseFloat(m[3], 64)
		}
		return err
	}
	if m := ulfmEnding.FindStringSubmatch(line); m != nil {
		t.checksum = m[2]
		t.iterations, err = strconv.Atoi(m[1])
		return err
	}
	if m := ulfmMove.FindStringSubmatch(line); m != nil {
		t.gone.places.add(m[1], m[2])
	}
	if m := summaryLine.FindStringSubmatch(line); m != nil {
		if t.checkpoints, err = strconv.Atoi(m[1]); err == nil {
			t.writing, err = time.ParseDuration(m[2])
		}
		return err
	}
	a := t.now()
	if a == nil {
		return nil
	}
	if m := ftEndsLine.FindStringSubmatch(line); m != nil {
		if a.code, err = strconv.Atoi(m[1]); err == nil {
			a.ended, err = parseStamp(m[2])
		}
		return err
	}
	if m := iterationLine.FindStringSubmatch(line); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		t.reached(a, ftMark{n, at})
	}
	return nil
}

func (t *ftTrace) reached(a *ftAttempt, m ftMark) {
	if a.first.iteration == 0 {
		a.first = m
	} else if m.iteration == a.last.iteration+1 {
		t.gaps = append(t.gaps, m.at.Sub(a.last.at).Seconds())
	} else {
		t.again += max(0, a.last.iteration-m.iteration+1)
	}
	a.last = m
}

// now is the attempt that runs, nil before the first.
func (t *ftTrace) now() *ftAttempt {
	if len(t.attempts) == 0 {
		return nil
	}
	return &t.attempts[len(t.attempts)-1]
}

// FTRun is what was measured of one run.
type FTRun struct {
	FTCase
	Seconds           float64 `json:"seconds"`            // from the script's first act to its last
	StartSeconds      float64 `json:"start_seconds"`      // from sbatch to the script's first act, on nodes that were powered down
	BootSeconds       float64 `json:"boot_seconds"`       // of a node: from Slurm's order to its registration
	IterationSeconds  float64 `json:"iteration_seconds"`  // median
	ComputeSeconds    float64 `json:"compute_seconds"`    // of an iteration: the rest of it is --pace
	Checkpoints       int     `json:"checkpoints"`        // that were completed
	CheckpointSeconds float64 `json:"checkpoint_seconds"` // to write them, in all
	IdleSeconds       float64 `json:"idle_seconds"`       // from an attempt's last iteration to computing again
	LostIterations    int     `json:"lost_iterations"`    // that were computed twice
	LostSeconds       float64 `json:"lost_seconds"`
	Restarts          []int   `json:"restarts"` // the iterations from which it went on
	Checksum          string  `json:"checksum"` // of the final field
	USD               float64 `json:"usd"`      // of the job, as `burst cost` has it
	AllUSD            float64 `json:"all_usd"`  // of all instances from launch to the job's end
}

// figures works out the run's times. It is an error if the run was not what it
// should have been.
func (t *ftTrace) figures(c FTCase, s FTSize) (FTRun, error) {
	want := 1
	if c.Evicted && !c.outlives() {
		want += ftEvictions
	}
	switch {
	case len(t.attempts) != want:
		return FTRun{}, fmt.Errorf("the job was started %d times, not %d", len(t.attempts), want)
	case t.now().ended.IsZero() || t.now().code != 0:
		return FTRun{}, fmt.Errorf("the job's script did not end well: exit code %d", t.now().code)
	case t.iterations != s.Iterations || t.checksum == "":
		return FTRun{}, fmt.Errorf("heat ended after %d iterations, not %d", t.iterations, s.Iterations)
	case len(t.gaps) == 0:
		return FTRun{}, fmt.Errorf("heat told of no iterations")
	}
	r := FTRun{
		FTCase: c, Seconds: t.now().ended.Sub(t.attempts[0].began).Seconds(), IterationSeconds: Median(t.gaps), ComputeSeconds: t.compute,
		Checkpoints: t.checkpoints, CheckpointSeconds: t.writing.Seconds(), Restarts: []int{}, Checksum: t.checksum,
	}
	if c.outlives() {
		return t.outlived(r)
	}
	for i, a := range t.attempts[1:] {
		before := t.attempts[i]
		if a.first.iteration == 0 || before.last.iteration == 0 {
			return FTRun{}, fmt.Errorf("restart %d told of no iterations", i+1)
		}
		from := a.first.iteration - 1
		if (from == 0) != (c.Method == FTNone) {
			return FTRun{}, fmt.Errorf("restart %d began from iteration %d", i+1, from)
		}
		lost := max(0, before.last.iteration-from)
		r.Restarts = append(r.Restarts, from)
		r.LostIterations += lost
		r.LostSeconds += float64(lost) * r.IterationSeconds
		r.IdleSeconds += max(0, a.first.at.Sub(before.last.at).Seconds()-r.IterationSeconds)
	}
	return r, nil
}
