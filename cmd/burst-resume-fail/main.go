// Command burst-resume-fail is slurmctld's ResumeFailProgram: it tells burstd
// of nodes that did not come up in time and returns.
package main

import (
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/handover"
)

func main() { handover.Main(api.ResumeFail) }
