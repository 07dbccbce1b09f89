package rig

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/slurm"
)

// Submit gives the text of a script to sbatch, in Work and for partition
// cloud unless args say otherwise, and returns the job's id.
func (s *Site) Submit(ctx context.Context, script string, args ...string) (uint32, error) {
	cmd := s.Cluster.Command(ctx, "sbatch", append([]string{"--parsable", "--partition=cloud"}, args...)...)
	cmd.Dir = s.Work
	cmd.Stdin = strings.NewReader(script)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("sbatch: %w: %s", err, bytes.TrimSpace(errOut.Bytes()))
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out.String()), ";") // a cluster's name may follow
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("sbatch printed no job id: %q", out.String())
	}
	return uint32(n), nil
}

// Job reads one job.
func (s *Site) Job(ctx context.Context, id uint32) (slurm.Job, error) { return s.slurm.Job(ctx, id) }
