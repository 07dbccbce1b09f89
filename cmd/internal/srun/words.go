package srun

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cmd/internal/rehearse"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// names are what the folder's pattern may stand for. An error is of the working
// directory, where that matters: another folder would have none of the job's
// checkpoints.
func (p *program) names(ctx context.Context, k known) (directive.Names, error) {
	n := directive.Names{User: k.job.User, Home: p.env("HOME"), JobName: k.job.Name, Job: k.job.Folder()}
	if u, err := user.Current(); err == nil {
		n.User = cmp.Or(n.User, u.Username)
		n.Home = cmp.Or(n.Home, u.HomeDir)
	}
	if k.job.Array != 0 {
		n.Array, n.Task = fmt.Sprint(k.job.Array), k.job.Task
	}
	own := k.own.From["dir"].Kind != directive.Default // by the user's word, as in every attempt
	if rooted := filepath.IsAbs(k.merged.Dir) || strings.HasPrefix(k.merged.Dir, "~"); rooted && (own || !k.later()) {
		return n, nil
	}
	for end := time.Now().Add(k.wait); ; {
		one, cancel := context.WithTimeout(ctx, lookTime)
		var err error
		n.Work, err = p.slurm().WorkDir(one, k.job.ID)
		cancel()
		if err == nil || k.job.Attempt == 0 || !time.Now().Before(end) || !pause(ctx, lookAgain) {
			return n, err
		}
	}
}

// explained says what would be done.
func (k known) explained(d plan) string {
	var b strings.Builder
	if d.Direct {
		fmt.Fprintf(&b, "runs srun: %s\n", d.Why)
	} else {
		fmt.Fprintf(&b, "runs under %s\n", k.how())
	}
	if k.once != "" {
		fmt.Fprintf(&b, "step %s, recorded in %s when it has ended well\n", k.once, k.dir)
	}
	for _, u := range k.merged.Unused {
		fmt.Fprintf(&b, "not used: %s=%s of the %s: %s\n", u.Key, u.Value, u.From, u.Why)
	}
	return b.String()
}

// but says what the protection of a step lacks, as far as that is known before it starts.
func (p *program) but(k known, d plan) string {
	var text string
	if u := k.unheard(); u != "" && !d.Direct {
		text = u + "\n"
	}
	one := k.merged.Method == directive.DMTCP || k.merged.Method == directive.CRIU
	if n := k.tasks(p.env); n > 1 && one && !d.Direct {
		if is, _ := k.launcher(p); !is {
			text += fmt.Sprintf("not protected: ckpt=%s checkpoints one task, and the step has %d\n", k.merged.Method, n)
		}
	}
	return text
}

// anew is how a user has the job begin anew though it has checkpoints. Slurm takes no
// comment of a job that has ended. It holds for all of the job's steps.
func anew(j step.Job) string {
	return fmt.Sprintf("to begin anew, without checkpoints: scontrol requeuehold %[1]d && scontrol update jobid=%[1]d comment='burst: ckpt=none' && scontrol release %[1]d", j.ID)
}

// how a step is protected, in a line.
func (k known) how() string {
	var when []string
	if k.merged.Periodical() {
		when = append(when, every(k.merged))
	}
	switch {
	case k.trial != nil:
		when = append(when, fmt.Sprintf("rehearsed with a checkpoint after %s", shortly(k.trial.For)))
	case k.merged.OnNotice() && k.burstd:
		when = append(when, "on a notice of burstd")
	}
	if len(when) == 0 {
		when = []string{"without further checkpoints"}
	}
	if k.isPart() {
		when = append(when, "together with the job's other components or not at all")
	}
	text := fmt.Sprintf("ckpt=%s, %s, in %s", k.merged.Method, strings.Join(when, " and "), k.dir)
	if k.trial != nil || len(k.call.Parts) == 0 || len(k.call.Program()) == 0 {
		return text
	}
	if v := rehearse.Of(k.dir, k.merged.Method, k.call.Program()[0], os.Getenv("PATH")); v != nil {
		text += ", " + v.Words()
	}
	return text
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}

// overwritten names a file that a restart of the job would empty: f is one, and was
// not opened to append.
func overwritten(w io.Writer) string {
	f, ok := w.(*os.File)
	if !ok {
		return ""
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_APPEND != 0 {
		return ""
	}
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		return name
	}
	return f.Name()
}

// shortly writes a time for people.
func shortly(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
