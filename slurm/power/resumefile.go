package power

import (
	"encoding/json"
	"fmt"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// jobNodes is one job of a resume file, its nodes expanded.
type jobNodes struct {
	Job   uint32
	Nodes []string // that Slurm powers up for it
	Total int      // all its nodes, those that are up already too
}

// parseResumeFile reads what slurmctld writes to SLURM_RESUME_FILE. 22.05 has
// `nodes` per job, 23.02 and later `nodes_resume` and `nodes_alloc`; keys that
// are not known are passed over. An empty text is no jobs.
func parseResumeFile(text string) ([]jobNodes, error) {
	if text == "" {
		return nil, nil
	}
	var file struct {
		Jobs []struct {
			ID     uint32 `json:"job_id"`
			Nodes  string `json:"nodes"`
			Resume string `json:"nodes_resume"`
			Alloc  string `json:"nodes_alloc"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return nil, fmt.Errorf("the resume file is not the JSON that slurmctld writes: %w", err)
	}
	var all []jobNodes
	for i, j := range file.Jobs {
		raise, whole := j.Resume, j.Alloc
		if raise == "" {
			raise = j.Nodes
		}
		if whole == "" {
			whole = raise
		}
		if j.ID == 0 || raise == "" {
			return nil, fmt.Errorf("the resume file's job %d lacks job_id or nodes", i+1)
		}
		nodes, err := hostlist.Expand(raise)
		if err != nil {
			return nil, fmt.Errorf("the resume file's job %d: %w", j.ID, err)
		}
		total, err := hostlist.Expand(whole)
		if err != nil {
			return nil, fmt.Errorf("the resume file's job %d: %w", j.ID, err)
		}
		all = append(all, jobNodes{Job: j.ID, Nodes: nodes, Total: len(total)})
	}
	return all, nil
}
