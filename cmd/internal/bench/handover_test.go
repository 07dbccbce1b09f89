package bench

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestResumeHandover(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	program := filepath.Join(t.TempDir(), "burst-resume")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "github.com/burst-hpc/burst/cmd/burst-resume").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	times, err := ResumeHandover(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(times)
	t.Logf("median %.1f ms, worst %.1f ms", times[len(times)/2], times[len(times)-1])
	if len(times) != handoverRuns || times[0] <= 0 {
		t.Errorf("times %v", times)
	}
}

func TestResumeFile(t *testing.T) {
	var f struct {
		Jobs []struct {
			ID    int `json:"job_id"`
			Nodes string
		}
		All string `json:"all_nodes"`
	}
	if err := json.Unmarshal(resumeFile(3), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Jobs) != 3 || f.Jobs[2].ID != 3 || f.Jobs[2].Nodes != "c3" || f.All != "c[1-3]" {
		t.Errorf("resume file %+v", f)
	}
}
