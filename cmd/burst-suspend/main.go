// Command burst-suspend is slurmctld's SuspendProgram: it hands the nodes to be
// ended to burstd and returns.
package main

import (
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/handover"
)

func main() { handover.Main(api.Suspend) }
