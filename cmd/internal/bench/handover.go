package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

const handoverRuns = 20

// ResumeHandover runs burst-resume against a live server of burstd's API that
// writes nothing to a disk, and returns the time from each process's start to
// its end in milliseconds. The nodes and the resume file are those of one
// call with 1,000 nodes.
func ResumeHandover(ctx context.Context, program string) ([]float64, error) {
	dir, err := os.MkdirTemp("", "burst-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	socket, config, resume := filepath.Join(dir, "b.sock"), filepath.Join(dir, "burst.toml"), filepath.Join(dir, "resume.json")
	text := fmt.Sprintf("[daemon]\nsocket = %q\nspool = %q\n", socket, filepath.Join(dir, "spool"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(resume, resumeFile(1000), 0o600); err != nil {
		return nil, err
	}
	b := new(apitest.Backend)
	stop, err := apitest.Serve(b, socket)
	if err != nil {
		return nil, err
	}
	defer stop()
	var times []float64
	for range handoverRuns {
		cmd := exec.CommandContext(ctx, program, "c[1-1000]")
		cmd.Env = []string{"BURST_CONFIG=" + config, "SLURM_RESUME_FILE=" + resume}
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			return nil, fmt.Errorf("%s: %v: %s", program, err, out)
		}
		times = append(times, float64(time.Since(begin).Microseconds())/1000)
	}
	if n := len(b.Orders()); n != handoverRuns {
		return nil, fmt.Errorf("%d orders arrived, not %d", n, handoverRuns)
	}
	return times, nil
}

// resumeFile is what slurmctld writes for n jobs of one node.
func resumeFile(n int) []byte {
	text := []byte(`{"jobs":[`)
	for i := 1; i <= n; i++ {
		if i > 1 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"job_id":%d,"nodes":"c%d"}`, i, i)
	}
	return fmt.Appendf(text, `],"all_nodes":"c[1-%d]"}`, n)
}
