package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/rig"
)

// A line of heat's output that tells how far it has come.
type heatLine struct {
	kind      heatKind
	iteration int64
	checksum  string // of done
}

type heatKind string

const (
	heatBegins     heatKind = "begins" // an attempt, at this iteration
	heatProgress   heatKind = "progress"
	heatCheckpoint heatKind = "checkpoint" // on a signal
	heatDone       heatKind = "done"
)

// parseHeat reads a line; ok is false for one that says nothing of these.
func parseHeat(line string) (h heatLine, ok bool) {
	text, ok := strings.CutPrefix(line, "heat: ")
	if !ok {
		return h, false
	}
	scan := func(format string, into ...any) bool {
		n, err := fmt.Sscanf(text, format, into...)
		return err == nil && n == len(into)
	}
	var last int64
	switch {
	case scan("iteration %d of %d,", &h.iteration, &last):
		h.kind = heatProgress
	case strings.Contains(text, "(SIGUSR1)") && scan("checkpoint at iteration %d", &h.iteration):
		h.kind = heatCheckpoint
	case scan("done iterations=%d checksum=%s", &h.iteration, &h.checksum):
		h.kind = heatDone
	default:
		_, rest, found := strings.Cut(text, ", iterations ")
		if n, err := fmt.Sscanf(rest, "%d to %d,", &h.iteration, &last); !found || err != nil || n != 2 {
			return h, false
		}
		h.kind = heatBegins
	}
	return h, true
}

// ledger keeps the books of one job's attempts.
type ledger struct {
	attempts int
	reached  int64 // by the present attempt, as far as it has said
	restarts []restart
	done     bool
	checksum string
}

// restart is the beginning of another attempt.
type restart struct {
	reached int64 // by the attempt before
	from    int64
}

func (r restart) lost() int64 { return max(0, r.reached-r.from) }

func (l *ledger) add(h heatLine) {
	switch h.kind {
	case heatBegins:
		if l.attempts > 0 {
			l.restarts = append(l.restarts, restart{l.reached, h.iteration})
		}
		l.attempts++
		l.reached = h.iteration
	case heatDone:
		l.done, l.checksum = true, h.checksum
		l.reached = h.iteration
	default:
		l.reached = max(l.reached, h.iteration)
	}
}

// run is what heat computes.
type run struct {
	cells, iterations int64
	seed              int
}

func (r run) args() []string {
	return []string{"-n", strconv.FormatInt(r.cells, 10), "-i", strconv.FormatInt(r.iterations, 10), "--seed", strconv.Itoa(r.seed)}
}

// reference computes r in one process, from the start to the end, and returns
// the checksum.
func reference(ctx context.Context, site *rig.Site, heat string, r run) (string, error) {
	cmd := exec.CommandContext(ctx, heat, r.args()...)
	cmd.Dir = site.Work
	cmd.Env = append(site.Env(), "OMPI_MCA_orte_tmpdir_base="+site.Work)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the uninterrupted run: %w: %s", err, bytes.TrimSpace(errOut.Bytes()))
	}
	for line := range strings.Lines(string(out)) {
		if h, ok := parseHeat(strings.TrimSpace(line)); ok && h.kind == heatDone {
			return h.checksum, nil
		}
	}
	return "", fmt.Errorf("the uninterrupted run printed no checksum: %q", out)
}

// tail reads a growing file line by line. A missing file is an empty one.
type tail struct {
	path string
	read int64
}

// lines returns the lines that have been completed since the last call.
func (t *tail) lines() ([]string, error) {
	f, err := os.Open(t.path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= t.read {
		return nil, err
	}
	data := make([]byte, info.Size()-t.read)
	if _, err := f.ReadAt(data, t.read); err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(data, '\n')
	if end < 0 {
		return nil, nil
	}
	t.read += int64(end) + 1
	return strings.Split(string(data[:end]), "\n"), nil
}
