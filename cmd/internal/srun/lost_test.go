package srun

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
)

// TestLostWork of an attempt that died, and burstd knows when.
func TestLostWork(t *testing.T) {
	died := time.Now()
	was := steprecord.Step{Began: died.Add(-time.Hour), Ended: died}
	if lost := lostWork(was, nil); lost != time.Hour {
		t.Errorf("without a checkpoint it has lost %s", lost)
	}
	var from ckpt.Generation
	from.Began = died.Add(-5 * time.Minute)
	if lost := lostWork(was, &from); lost != 5*time.Minute {
		t.Errorf("it has lost %s", lost)
	}
}
