// Package srun is burst-srun: it stands in for srun, and protects the step that
// it runs. What is to be done with a command line is decided by pure functions
// (read, before, after, claim); a runner sees one step through.
package srun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/step"
)

// Main is the program: it returns the exit code, or does not return where srun
// takes its place.
func Main(ctx context.Context, args, environ []string) int {
	p := program{name: filepath.Base(args[0]), args: args[1:], environ: environ, stdout: os.Stdout, stderr: os.Stderr}
	if text := p.help(); text != "" {
		fmt.Fprint(p.stdout, text)
		return cli.OK
	}
	return p.run(ctx)
}

// program is one run of burst-srun.
type program struct {
	name           string // "burst-srun", or "srun"
	args, environ  []string
	stdout, stderr io.Writer
	srun           string // the real one
	tests          doubles
}

// doubles stand in for what is outside of this process; nil: it does itself.
type doubles struct {
	slurm  client
	burstd func() session.Transport
	become func(line []string) error
	agent  string // the path of agent.env
}

// env looks a variable up; the last of a name counts, as in a shell.
func (p *program) env(name string) string {
	value := ""
	for _, kv := range p.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// say tells the user something in a line.
func (p *program) say(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	fmt.Fprintf(p.stderr, "burst-srun: %s\n", text)
}

// help is burst-srun's own, when it is called by its name: srun --help has srun's.
func (p *program) help() string {
	if p.name == "srun" || len(p.args) == 0 {
		return ""
	}
	switch p.args[0] {
	case "--help", "-h":
		return Help
	case "--version":
		return "burst-srun " + cli.Version + "\n"
	}
	return ""
}

func (p *program) run(ctx context.Context) int {
	if code, is := p.onNode(ctx); is {
		return code
	}
	var err error
	if p.srun, err = findSrun(p.env); err != nil {
		p.say("error: %v", err)
		return cli.Failed
	}
	job, jerr := step.ReadJob(p.env)
	r, err := read(ctx, p.args, p.env, p.ask)
	k := known{facts: facts{request: r, job: job, garbled: err}}
	if err != nil {
		// srun says what is wrong, or knows more than we do.
		k.call.Args = stripped(p.args)
	}
	if k.once != "" {
		if err := checkName(k.once); err != nil {
			return p.wrong(err)
		}
	}
	if jerr != nil {
		return p.decided(ctx, direct(fmt.Sprintf("%v: the step is not protected", jerr)), k)
	}
	if d := before(k.facts, p.env); d.Direct {
		return p.decided(ctx, d, k)
	}
	if k.asksNothing() && left(os.TempDir(), job, isPlainJob, startOf("/proc", job.Shell)) {
		return p.decided(ctx, direct(""), k)
	}
	return p.protect(ctx, k)
}

// wrongError is the user's to change.
type wrongError struct{ error }

func (e wrongError) Unwrap() error { return e.error }

// wrong reports what the user has to change; nothing was started.
func (p *program) wrong(err error) int {
	p.say("error: %v", err)
	return cli.Usage
}

// failed reports why the step is not started.
func (p *program) failed(err error) int {
	p.say("error: %v", err)
	return cli.Failed
}

// decided carries out a direct plan, or explains it.
func (p *program) decided(ctx context.Context, d plan, k known) int {
	if err := p.readsImage(ctx, &k); err != nil {
		return p.unprepared(err)
	}
	if err := p.prepare(ctx, &k); err != nil {
		return p.unprepared(err)
	}
	if k.explain {
		why := d.Why
		if why == "" {
			why = "nothing is to be protected"
		}
		line, launcher, err := p.plainly(k, k.call.Args)
		if err != nil {
			return p.wrong(err)
		}
		what := "srun"
		if launcher {
			what = line[0]
		}
		fmt.Fprintf(p.stdout, "runs %s as it is: %s\n  %s\n%s", what, why, strings.Join(line, " "), explainSettings(k.put))
		return cli.OK
	}
	return p.plain(d.Why, k)
}

// once says something the first time in an attempt of the job.
func (p *program) once(j step.Job, what, text string) {
	if text != "" && leave(os.TempDir(), j, what) {
		p.say("%s", text)
	}
}

// notProtected says why, each reason once.
func (p *program) notProtected(k known, why string) {
	p.once(k.job, saidPlain+hexSum([]byte(why))[:16], why)
}

// askTime bounds a question to srun itself.
const askTime = 20 * time.Second

// ask asks the real srun for --help or --version.
func (p *program) ask(ctx context.Context, option string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.srun, option)
	cmd.Env = append(without(p.environ, markName), markName+"=ask")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("srun %s: %w", option, err)
	}
	return string(out), nil
}

// slurm is how Slurm is asked.
func (p *program) slurm() client {
	if p.tests.slurm != nil {
		return p.tests.slurm
	}
	e := slurm.Exec{Timeout: lookTime}
	return ctld{slurm.New(e), e}
}

// finds notes how burstd is reached, if that is known.
func (p *program) finds(k *known) {
	w, err := findBurstd(p.env, cmp.Or(p.tests.agent, agentEnv))
	k.siteNone = w.none
	switch {
	case p.tests.burstd != nil:
		k.transport = p.tests.burstd()
	case len(w.urls) > 0:
		k.transport = newBurstd(w, munge.New(munge.Options{Socket: p.env("BURST_MUNGE_SOCKET")}))
	}
	if k.burstd = k.transport != nil; !k.burstd {
		k.deaf = err
	}
}

// passed are the signals that a step gets from burst-srun, as from srun.
var passed = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGALRM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGPIPE}

// listen takes the signals; those that the caller had ignored stay so, as for a
// step in the background of a shell.
func listen() <-chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, s := range passed {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// isPlain says that the method could not start the step, and srun may.
func isPlain(err error) bool {
	var e plainError
	return errors.As(err, &e)
}
