package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// ftTask is one run of a case.
type ftTask struct {
	FTCase
	size FTSize
	dir  string // its site's, in Env.Dir
	say  func(format string, args ...any)
}

const (
	ftOutput = "out"
	ftLook   = 20 * time.Millisecond // from one look at the job's output to the next
	ftTell   = 20 * time.Second      // from one line about it to the next
)

// ftMeasure runs a case on a site of its own. Without faults the nodes are on
// demand, else spot.
func ftMeasure(ctx context.Context, env Env, t ftTask) (run FTRun, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*t.size.lasts(t.FTCase)+3*time.Minute, errors.New("it takes more than three times as long as it should"))
	defer cancel()
	listen, err := freeAddr()
	if err != nil {
		return run, err
	}
	market := "on-demand"
	if t.Evicted {
		market = "spot"
	}
	prices, err := ftPrices(env)
	if err != nil {
		return run, err
	}
	r, err := rig.Start(ctx, rig.Options{
		Bin: env.Programs, Dir: filepath.Join(env.Dir, t.dir), Nodes: t.Nodes + ftEvictions + 1, Gate: true, Market: market, Prices: prices,
		SuspendTime: time.Hour, SuspendTimeout: time.Minute,
		SlurmExtra: "SchedulerParameters=" + t.schedulerParameters() + "\n",
		DaemonToml: fmt.Sprintf("listen = %q", listen),
	})
	if err != nil {
		return run, err
	}
	s := site{r}
	defer func() { err = errors.Join(err, s.Close()) }()
	munge, err := s.mungeSocket(ctx)
	if err != nil {
		return run, err
	}
	script := t.script(env, fmt.Sprintf("export BURST_URLS=http://%s BURST_MUNGE_SOCKET=%s", listen, munge))
	submitted := time.Now()
	id, err := s.Submit(ctx, script)
	if err != nil {
		return run, err
	}
	trace, err := t.watch(ctx, s, id)
	if err == nil {
		run, err = trace.figures(t.FTCase, t.size)
	}
	if err != nil {
		return run, fmt.Errorf("%w; its output ends:\n%s", err, ftTail(s))
	}
	run.StartSeconds = trace.attempts[0].began.Sub(submitted).Seconds()
	if run.USD, run.AllUSD, err = ftCost(ctx, s, id, trace.now().ended); err != nil {
		return run, err
	}
	run.BootSeconds, err = ftBoot(ctx, s, id)
	return run, err
}

// script is the job's.
func (t ftTask) script(env Env, exports string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("#!/bin/bash")
	line("#SBATCH --nodes=%d --ntasks-per-node=%d --exclusive %s --open-mode=append --output=%s", t.Nodes, ftRanks/t.Nodes, t.requeue(), ftOutput)
	if t.Strategy != "" {
		line("#BURST ckpt=%s strategy=%s", t.Method, t.Strategy)
	}
	if t.Strategy == ftPeriodic {
		line("#BURST interval=%s", t.size.interval())
	}
	heat := fmt.Sprintf("%s -n %d -i %d --pace %d --progress 0.001", env.heat(t.Method), t.size.Cells, t.size.Iterations, t.size.Pace.Milliseconds())
	srun := filepath.Join(env.Programs, "burst-srun")
	run := fmt.Sprintf("%s --mpi=pmix %s", srun, heat)
	switch t.Method {
	case FTNone:
		run = "srun --mpi=pmix " + heat
	case "signal":
		line("#BURST signal=USR1 files=heat.ckpt")
		run += " --checkpoint heat.ckpt --restart auto"
		if t.Strategy != ftPeriodic {
			run += " --exit-on-signal" // its exit code proves the checkpoint
		}
	case "command":
		line("#BURST checkpoint='rm -f heat.ckpt && kill -s USR1 $BURST_PID && until [ -e heat.ckpt ]; do sleep 0.1; done && cp heat.ckpt \"$BURST_DIR\"'")
		line("#BURST restart='exec \"$@\" --restart \"$BURST_GENERATION/heat.ckpt\"'")
		run += " --checkpoint heat.ckpt"
	case "dmtcp":
		run = fmt.Sprintf("%s mpirun --oversubscribe %s", srun, heat)
	case "libburst": // which has the periodic ones written, too
		run += " --checkpoint heat.ckpt --restart auto"
	case "scr":
		exports += " SCR_PREFIX=$PWD USER=${USER:-$(id -un)}"
		run += " --checkpoint heat.ckpt --restart auto"
		if t.Strategy == ftPeriodic {
			run += fmt.Sprintf(" --every %d", ftFrequent)
		}
	case FTULFM:
		run = env.ulfmRun(heat)
	}
	line("%s", exports)
	// Ranks share the host's cores with all nodes, and its one address.
	line("export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	line("echo %s $(date +%%s.%%N)", ftBegins)
	line("%s", run)
	line("code=$?")
	line("echo %s $code at $(date +%%s.%%N)", ftEnds)
	line("exit $code")
	return b.String()
}

// watch reads the job's output to its end, and takes a node at one and at two thirds of
// the iterations.
func (t ftTask) watch(ctx context.Context, s site, id uint32) (trace *ftTrace, err error) {
	trace = &ftTrace{}
	out := ftReader{path: filepath.Join(s.Work, ftOutput)}
	tick := time.NewTicker(ftLook)
	defer tick.Stop()
	told := time.Now()
	for {
		lines, err := out.more()
		if err != nil {
			return trace, err
		}
		for _, l := range lines {
			if err := trace.add(time.Now(), l); err != nil {
				return trace, fmt.Errorf("%q in the job's output: %w", l, err)
			}
		}
		a, taken := trace.now(), len(trace.gone.nodes)
		if a != nil && !a.ended.IsZero() && a.code == 0 {
			return trace, nil
		}
		again := len(trace.attempts) == taken+1 || t.outlives() && a != nil
		if t.Evicted && taken < ftEvictions && again && a.last.iteration >= (taken+1)*t.size.Iterations/(ftEvictions+1) {
			if err := t.evict(ctx, s, id, &trace.gone); err != nil {
				return trace, err
			}
		}
		if time.Since(told) >= ftTell {
			told = time.Now()
			if err := t.tell(ctx, s, id, a); err != nil {
				return trace, err
			}
		}
		select {
		case <-ctx.Done():
			return trace, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tell says how far the job is, and whether it still is.
func (t ftTask) tell(ctx context.Context, s site, id uint32, a *ftAttempt) error {
	j, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	if slices.Contains([]string{"FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"}, j.State) {
		return fmt.Errorf("the job is %s", j.State)
	}
	at := 0
	if a != nil {
		at = a.last.iteration
	}
	t.say("  %s: iteration %d of %d, %s", t.Name(), at, t.size.Iterations, strings.ToLower(j.State))
	return nil
}

// ftReader reads the lines that are added to a file.
type ftReader struct {
	path string
	at   int64
	rest []byte // of a line that has not ended
}

func (r *ftReader) more() (lines []string, err error) {
	f, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, r.at, 1<<30))
	if err != nil {
		return nil, err
	}
	r.at += int64(len(text))
	text = append(r.rest, text...)
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			r.rest = text
			return lines, nil
		}
		lines, text = append(lines, string(line)), rest
	}
}

// ftTail are the last lines of the job's output and of burstd's log.
func ftTail(s site) string {
	var b strings.Builder
	for _, path := range []string{filepath.Join(s.Work, ftOutput), s.Log()} {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintln(&b, strings.Join(lines[max(0, len(lines)-25):], "\n"))
	}
	return b.String()
}
