// Command burst-srun runs a step of a job as srun does, and protects it: with
// checkpoints, and by restarting it from the last good one.
package main

import (
	"context"
	"os"

	"github.com/burst-hpc/burst/cmd/internal/srun"
)

// main leaves signals to the step, as srun does.
func main() { os.Exit(srun.Main(context.Background(), os.Args, os.Environ())) }
