package step

import (
	"fmt"
	"strconv"
)

// Place is where in a job a process runs.
type Place string

const (
	Outside     Place = "outside"     // in no job
	Batch       Place = "batch"       // the job's script
	Interactive Place = "interactive" // salloc's shell, or a shell that srun runs
	InStep      Place = "step"        // a task of a step
)

// Job is what the environment says of the job that a process is in.
type Job struct {
	Place   Place
	ID      uint32 // of the leader for a heterogeneous job
	Array   uint32 // 0: it is no task of an array
	Task    string // of the array
	Attempt int    // restarts so far
	Nodes   int    // 0: not said
	// Components are those of a heterogeneous job; 0: it is none.
	Components int
	Cluster    string
	Name       string
	User       string
	Shell      int // process id of the batch script; 0: not known
}

// firstSpecial is the lowest of the numbers that are no step's: Slurm's own for
// the batch script, the interactive step and the like.
const firstSpecial = 0xfffffff0

// ReadJob reads the environment that Slurm gives a process. An error says that
// what stands there cannot be.
func ReadJob(env func(string) string) (Job, error) {
	j := Job{Place: Outside, Cluster: env("SLURM_CLUSTER_NAME"), Name: env("SLURM_JOB_NAME"), User: env("SLURM_JOB_USER")}
	if env("SLURM_JOB_ID") == "" {
		return j, nil
	}
	id, err := readNumber(env, "SLURM_JOB_ID")
	if err != nil || id == 0 {
		return j, fmt.Errorf("SLURM_JOB_ID is %q, which is no job's id", env("SLURM_JOB_ID"))
	}
	j.ID, j.Place = uint32(id), Interactive
	for name, set := range map[string]func(uint64){
		"SLURM_RESTART_COUNT": func(n uint64) { j.Attempt = int(n) },
		"SLURM_JOB_NUM_NODES": func(n uint64) { j.Nodes = int(n) },
		"SLURM_HET_SIZE": func(n uint64) {
			if n > 1 {
				j.Components = int(n)
			}
		},
		"SLURM_ARRAY_JOB_ID": func(n uint64) { j.Array = uint32(n) },
		"SLURM_TASK_PID": func(n uint64) {
			j.Shell, j.Place = int(n), Batch
		},
	} {
		if env(name) == "" {
			continue
		}
		n, err := readNumber(env, name)
		if err != nil {
			return j, err
		}
		set(n)
	}
	if j.Array != 0 {
		if j.Task = env("SLURM_ARRAY_TASK_ID"); j.Task == "" {
			j.Array = 0
		} else if _, err := readNumber(env, "SLURM_ARRAY_TASK_ID"); err != nil {
			return j, err
		}
	}
	if env("SLURM_STEP_ID") != "" {
		switch n, err := readStep(env); {
		case err != nil:
			return j, err
		case n < firstSpecial:
			j.Place = InStep
		case n == 0xfffffffa: // the interactive step of salloc
			j.Place = Interactive
		}
	}
	return j, nil
}

// readNumber reads what Slurm writes as a number of 32 bits.
func readNumber(env func(string) string, name string) (uint64, error) {
	n, err := strconv.ParseUint(env(name), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is %.40q, which is no number of Slurm's", name, env(name))
	}
	return n, nil
}

// readStep reads the step's number. Slurm 26.05 writes those that are no step of a user's, as the batch script's, with a sign.
func readStep(env func(string) string) (uint64, error) {
	if n, err := strconv.ParseInt(env("SLURM_STEP_ID"), 10, 32); err == nil && n < 0 {
		return uint64(uint32(n)), nil
	}
	return readNumber(env, "SLURM_STEP_ID")
}

// Folder names the job in the folder of its checkpoints: "17", or "17_3" for a
// task of an array, which is a job of its own.
func (j Job) Folder() string {
	if j.Array != 0 {
		return fmt.Sprintf("%d_%s", j.Array, j.Task)
	}
	return strconv.FormatUint(uint64(j.ID), 10)
}
