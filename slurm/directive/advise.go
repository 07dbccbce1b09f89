package directive

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Known is an answer that may be missing.
type Known int

// The answers.
const (
	Unknown Known = iota
	Yes
	No
)

// Job is what matters of a job beside what is said of its checkpoints. burst
// explain reads it of a script, burst-srun of Slurm; zero is not known.
type Job struct {
	Interactive bool          // of salloc or srun: it has no script to start again
	Requeue     Known         // whether Slurm may start it again
	Append      Known         // whether its output is added to that of the attempts before
	Array, Het  bool          //
	Nodes       int           // at least so many
	Tasks       int           // of a step that names no number
	Launches    bool          // the script calls mpirun or mpiexec
	Protected   Known         // whether the script has burst-srun start its steps
	TaskProlog  string        // the site's, which may have it start them; empty: none
	Signal      string        // sbatch's --signal
	KillWait    time.Duration // of Slurm: from SIGTERM to SIGKILL
	Margin      time.Duration // a job leaves so long before its node's end
}

// Advice is what a user should know of a job before it runs.
type Advice struct {
	Level string `json:"level"` // Warning or Note
	About string `json:"about"` // a key, or an option of sbatch
	Text  string `json:"text"`
}

// Levels of Advice.
const (
	Warning = "warning" // work may be lost
	Note    = "note"
)

// Notice is how long before an instance's end EC2 tells of it, at most.
const Notice = 2 * time.Minute

// Advise says what will become of a job, where that may be other than its user thinks.
func Advise(m Merged, j Job) []Advice {
	var all []Advice
	add := func(level, about, format string, args ...any) {
		all = append(all, Advice{level, about, fmt.Sprintf(format, args...)})
	}
	stays := j.Interactive || j.Requeue == No // it is not requeued
	unsent := m.Startles() || m.Unnamed() && stays
	asks := m.Method != None || m.Signal != "" && !unsent
	switch {
	case j.Interactive && asks:
		add(Warning, "requeue", "a job of salloc or srun has no script to start again: it gets its signal, but no checkpoint, is never requeued, and ends with its node")
	case j.Interactive:
		add(Warning, "requeue", "a job of salloc or srun has no script to start again: it is never requeued, and ends with its node")
	case j.Requeue == No:
		add(Warning, "requeue", "it cannot be requeued, and ends with its node: add #SBATCH --requeue")
	case j.Requeue == Unknown:
		add(Warning, "requeue", "neither --requeue nor --no-requeue is set: it ends with its node where slurm.conf says JobRequeue=0: add #SBATCH --requeue")
	}
	if !j.Interactive && j.Requeue != No {
		switch j.Append {
		case No:
			add(Warning, "open-mode", "each new start overwrites its output: add #SBATCH --open-mode=append")
		case Unknown:
			add(Warning, "open-mode", "each new start overwrites its output, unless slurm.conf says JobFileAppend=1: add #SBATCH --open-mode=append")
		}
		if !asks {
			add(Note, "ckpt", "no method and no signal: when it loses a node it is requeued at once, and begins anew")
		}
	}
	switch {
	case m.Startles():
		add(Note, "signal", "the site's %s is not sent: ckpt=%s needs none, and the program may not expect it", m.Value("signal"), m.Method)
	case unsent:
		add(Note, "signal", "the site's %[1]s is not sent to a job that cannot be requeued: if the program expects it, add #BURST signal=%[1]s", m.Value("signal"))
	}
	adviseMethod(m, j, add)
	adviseTime(m, j, add)
	if m.After == PowerDown {
		add(Note, "after", "when the job has ended for 15 s, burstd has Slurm power down those of its cloud nodes that are idle and that no other job has had since")
	}
	if j.Signal != "" && !asks {
		add(Warning, "signal", "sbatch's --signal=%s is for the time limit and is not sent before a requeue: add #BURST signal=", clip(j.Signal))
	}
	if j.Array {
		add(Note, "array", "each task is a job of its own: checkpointed and requeued alone, with a folder of its own")
	}
	if j.Array && m.Budget > 0 {
		add(Note, "budget", "each task of the array has %[1]g USD to itself: a hundred tasks may cost %[2]g USD", m.Budget, 100*m.Budget)
	}
	if j.Het {
		add(Note, "hetjob", "the parts are checkpointed together or not at all, and requeued by their leader; in steps of their own they are checkpointed on a notice alone; the #BURST lines are for all of them")
	}
	return all
}

type adder func(level, about, format string, args ...any)

func adviseMethod(m Merged, j Job, add adder) {
	if m.Method == None || j.Interactive {
		return
	}
	switch {
	case j.Protected == No && j.TaskProlog != "":
		add(Note, "ckpt", "nothing in the script calls burst-srun, which makes the checkpoints: srun is burst-srun if the site's TaskProlog, %s, makes it so", clip(j.TaskProlog))
	case j.Protected == No:
		add(Warning, "ckpt", "nothing in the script calls burst-srun, which makes the checkpoints: write burst-srun in place of srun, or eval \"$(burst env)\" before it")
	}
	if m.Strategy == None {
		add(Note, "strategy", "none: no checkpoint is made")
	}
	switch one := m.Method == DMTCP || m.Method == CRIU || m.Preset != ""; {
	case one && j.Nodes > 1:
		add(Warning, "ckpt", "%s checkpoints what runs on one node, and the job asks for %d", cmp.Or(m.Preset, m.Method), j.Nodes)
	case m.Method == DMTCP && j.Tasks > 1 && !j.Launches:
		add(Warning, "ckpt", "dmtcp checkpoints one task below srun, and the job has %d: write burst-srun mpirun before the program, or ask for one task with --cpus-per-task=%[1]d, else the step is not protected", j.Tasks)
	case one && m.Method != DMTCP && j.Tasks > 1:
		add(Warning, "ckpt", "%[2]s checkpoints one task, and the job has %[1]d: ask for one with --cpus-per-task=%[1]d, else the step is not protected", j.Tasks, cmp.Or(m.Preset, m.Method))
	}
	for _, own := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/local"} {
		if dir := filepath.Clean(m.Dir); dir == own || strings.HasPrefix(dir, own+"/") {
			add(Warning, "dir", "%s is as a rule a node's own, and gone with it: name a folder that all nodes share", m.Dir)
		}
	}
	if m.From["dir"].Kind == Default {
		add(Note, "dir", "%s is in the job's working directory, which all nodes must share", m.Dir)
	}
}

// adviseTime compares what the job may take with what a notice leaves.
func adviseTime(m Merged, j Job, add adder) {
	left := Notice - cmp.Or(j.Margin, defaultMargin)
	switch {
	case m.Signal == "":
	case m.Grace > left:
		add(Warning, "grace", "%s is more than EC2's notice of %s leaves: the job is requeued %s before its node's end, ready or not", short(m.Grace), short(Notice), short(Notice-left))
	case m.Grace+j.KillWait > left:
		add(Warning, "grace", "%s and then KillWait=%s are more than EC2's notice of %s leaves: a step that does not end by itself within the %[1]s may still run when its node ends",
			short(m.Grace), short(j.KillWait), short(Notice))
	}
}

// defaultMargin is burstd's where the site has none.
const defaultMargin = 5 * time.Second

// Overlooked finds the lines of a script that look like directives and are none.
func Overlooked(script string) []Advice {
	var all []Advice
	number, over := 0, false
	for line := range strings.Lines(script) {
		number++
		trimmed := strings.TrimSpace(line)
		over = over || trimmed != "" && trimmed[0] != '#'
		word, _, _ := strings.Cut(strings.ReplaceAll(trimmed, "\t", " "), " ")
		text := ""
		switch {
		case word == "#BURST" && over:
			text = "is below the first command, and is not read"
		case word != "#BURST" && strings.EqualFold(strings.TrimRight(word, ":"), "#BURST"):
			text = "is a comment: a directive begins with #BURST and a blank"
		}
		if text != "" {
			all = append(all, Advice{Warning, fmt.Sprintf("line %d", number), text})
		}
	}
	return all
}
