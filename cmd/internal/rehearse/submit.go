package rehearse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/sbatch"
)

// Options are what is to be rehearsed, and how.
type Options struct {
	Script    string
	Args      []string // of the script
	Method    string   // as of burst-srun --ckpt, in place of it; empty: what the job says
	Verify    string   // a shell's command
	Partition string   // empty: the job's own
	Sbatch    []string // more options of sbatch
	Dir       string   // where the rehearsal's folder is made, on shared storage
	Chdir     string   // the job runs there; empty: in a folder of its own
	Copy      []string // copied into that
	Keep      bool     // the folder is left, whatever the result

	Site *directive.Defaults // what burst.toml says of the job; nil: it is not known here

	For    time.Duration // from the step's start to its checkpoint
	Within time.Duration // bounds the wait for a step to start, and the checkpoint
	RunFor time.Duration // of a restarted step; 0: to the end of the job
}

// UsageError says what is wrong with what is asked for; nothing was submitted.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// script is what is to be rehearsed, as it was read.
type script struct {
	path string // absolute
	text string
	head sbatch.Head
}

// maxScript is what slurmctld takes of a script, by default.
const maxScript = 4 << 20

// readScript reads the script and says whether it can be rehearsed.
func readScript(o Options) (s script, err error) {
	if s.path, err = filepath.Abs(o.Script); err != nil {
		return s, err
	}
	st, err := os.Stat(s.path)
	if err == nil && (!st.Mode().IsRegular() || st.Size() > maxScript) {
		err = fmt.Errorf("%s is no file of at most %d MiB", o.Script, maxScript>>20)
	}
	if err != nil {
		return s, &UsageError{err}
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return s, &UsageError{err}
	}
	s.text = string(text)
	if s.head, err = sbatch.Read(s.text); err != nil {
		return s, &UsageError{fmt.Errorf("%s: %w", o.Script, err)}
	}
	said := directive.Said{Script: s.text}
	if o.Method != "" {
		said.Options = []string{o.Method}
	}
	if c, ok := s.head.Last("comment"); ok {
		said.Comment = c.Value
	}
	judged := said.Own // the job hears the rest of burstd
	if o.Site != nil {
		said.Site = *o.Site
		judged = said.Merge
	}
	if _, err := judged(); err != nil {
		return s, &UsageError{fmt.Errorf("%s: %w", o.Script, err)}
	}
	if s.head.Parts > 1 {
		return s, &UsageError{errors.New("a heterogeneous job cannot be rehearsed: rehearse its parts, each as a job")}
	}
	if w, ok := s.head.Last("wait", "test-only"); ok {
		return s, &UsageError{fmt.Errorf("%s:%d: --%s cannot be rehearsed: leave it out", o.Script, w.Line, w.Name)}
	}
	return s, nil
}

// arguments are sbatch's, over what the script says: the job runs in the rehearsal's
// folder, writes its output there, bothers nobody, and waits until it is let go.
func arguments(o Options, s script, r room, env func(string) string) []string {
	args := []string{"--parsable", "--hold", "--requeue", "--open-mode=append", "--mail-type=NONE", "--chdir=" + r.work,
		"--output=" + escaped(r.output("job.out")), "--error=" + escaped(r.output("job.err"))}
	if o.Partition != "" {
		args = append(args, "--partition="+o.Partition)
	}
	if a, ok := s.head.Last("array"); ok {
		args = append(args, "--array="+firstTask(a.Value))
	}
	exported := env("SBATCH_EXPORT")
	if e, ok := s.head.Last("export"); ok && exported == "" {
		exported = e.Value
	}
	args = append(args, export(exported)...)
	args = append(args, o.Sbatch...)
	return append(append(args, s.path), o.Args...)
}

// escaped is a path in which sbatch replaces nothing.
func escaped(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// firstTask is the first task of an array: "3-8:2%4" has 3.
func firstTask(list string) string {
	if i := strings.IndexFunc(list, func(r rune) bool { return r < '0' || r > '9' }); i > 0 {
		return list[:i]
	}
	return list
}

// export has the rehearsal's variable reach a job that wants only some.
func export(asked string) []string {
	switch strings.ToUpper(asked) {
	case "", "ALL":
		return nil
	case "NONE", "NIL":
		return []string{"--export=" + EnvName, "--get-user-env"} // as sbatch does it for NONE
	}
	return []string{"--export=" + asked + "," + EnvName}
}

// submitTime bounds sbatch. It is not broken off: the job might be there, and
// nobody would know its id.
const submitTime = time.Minute

// submit gives the job to sbatch, held, and returns its id.
func submit(ctx context.Context, r room, args []string) (uint32, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sbatch", args...)
	cmd.Dir = r.work // what SLURM_SUBMIT_DIR says
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SBATCH_WAIT=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, EnvName+"="+r.reports())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is not for it
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("sbatch: %w: %.500s", err, bytes.TrimSpace(errs.Bytes()))
	}
	word, _, _ := strings.Cut(strings.TrimSpace(out.String()), ";") // a cluster's name may follow
	id, err := strconv.ParseUint(word, 10, 32)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("sbatch printed no job's id: %.100q", out.String())
	}
	return uint32(id), nil
}
