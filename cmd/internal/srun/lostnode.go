package srun

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"sync"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/mpi"
)

// lossWatch passes on what a launcher says, and notes where it says that it has lost a node:
// its exit code is 0 then; and where it says that it goes on without: its exit code counts. nil
// watches nothing.
type lossWatch struct {
	to           io.Writer
	mu           sync.Mutex
	last         []byte // the end of what came, in which the words may have begun
	lost, goesOn bool
}

// Write implements io.Writer. What cannot be passed on is dropped, as by a launcher of which
// nobody reads the words: the step does not end for it.
func (w *lossWatch) Write(b []byte) (int, error) {
	w.mu.Lock()
	text := append(w.last, b...)
	w.lost = w.lost || bytes.Contains(text, []byte(mpi.LostNode))
	w.goesOn = w.goesOn || bytes.Contains(text, []byte(mpi.GoesOn))
	w.last = bytes.Clone(text[max(0, len(text)-max(len(mpi.LostNode), len(mpi.GoesOn))):])
	w.mu.Unlock()
	_, _ = w.to.Write(b)
	return len(b), nil
}

// judge is the exit code of a launcher that has ended with code, and what its user is to know.
func (w *lossWatch) judge(code int, j step.Job) (int, string) {
	if w == nil {
		return code, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := w.lost && !w.goesOn
	w.lost, w.goesOn, w.last = false, false, nil // it may be started again
	if code != 0 || !lost {
		return code, ""
	}
	return cli.Failed, fmt.Sprintf("the launcher has lost a node, by its own word, and ended with exit code 0: the step is not done: `scontrol requeue %d` runs it again, from its last checkpoint if it has one", j.ID)
}

// watched is a start whose launcher's words are looked at, if it is one whose exit code says
// nothing of a lost node.
func (p *program) watched(k known, l ckpt.Launch) (ckpt.Launch, *lossWatch) {
	if k.job.Nodes < 2 || l.Stderr == nil || len(l.Args) == 0 || l.Args[0] == p.srun {
		return l, nil
	}
	path, err := exec.LookPath(l.Args[0])
	if err != nil || !mpi.LosesNodes(path) {
		return l, nil
	}
	w := &lossWatch{to: l.Stderr}
	l.Stderr = w
	return l, w
}
