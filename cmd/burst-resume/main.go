// Command burst-resume is slurmctld's ResumeProgram: it hands the nodes to be
// raised to burstd and returns.
package main

import (
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/handover"
)

func main() { handover.Main(api.Resume) }
