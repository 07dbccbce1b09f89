package srun

import (
	"context"
	"fmt"
	"os"

	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

// imageWord is the image that is asked for, and whether an option of this call names it;
// "": none.
func (k known) imageWord() (word string, option bool) {
	if given := k.call.OwnValues("container"); len(given) > 0 {
		word, option = given[len(given)-1], true
	} else if word = k.own.Container; word == "" {
		word = k.merged.Container
	} else {
		option = k.own.From["container"].Kind == directive.Option
	}
	if word == directive.None {
		word = ""
	}
	return word, option
}

// readsImage finds which image is asked for of a step that nobody has read the job's words
// for, because it is not to be protected: it runs in its container all the same.
func (p *program) readsImage(ctx context.Context, k *known) error {
	if k.own.From != nil || len(k.call.OwnValues("container")) > 0 {
		return nil
	}
	said := directive.Said{Options: k.ckpt}
	j, nature := k.job, step.Step
	if k.garbled == nil {
		nature = k.call.Nature(p.env)
	} else {
		said.Options = p.frontOptions(*k)
	}
	off := p.env("BURST_SRUN_OFF") == "1"
	switch {
	case nature == step.Query, k.helps(k.garbled):
		return nil
	case within(p.env, j), j.Place == step.InStep, nature == step.Foreign:
		// What is in the environment is meant for the steps of the job's script.
		if k.garbled != nil || len(k.call.OwnValues("ckpt")) == 0 {
			return nil
		}
	case j.Place == step.Batch && off:
		said.Script, _ = spooled("/proc", j.Shell) // srun and no more: Slurm is not asked for this
	case j.Place == step.Batch && k.unlooked == nil && !left(os.TempDir(), j, isPlainJob, startOf("/proc", j.Shell)):
		s, err := look(ctx, p.slurm(), j, "/proc")
		if k.unlooked = err; err == nil {
			said.Script, said.Comment = s.script, s.state.Comment
		}
	}
	m, err := said.Merge()
	if err != nil { // the site's word, which is not asked for, may mend it
		m, err = said.Own()
	}
	switch {
	case err != nil && (off || k.garbled != nil):
		return nil // srun is to have the step as it is
	case err != nil:
		return wrongError{err}
	case off && m.Container != "" && m.Container != directive.None:
		why := fmt.Sprintf("BURST_SRUN_OFF=1: the step runs on the host, not in container=%s", m.Container)
		p.notProtected(*k, why)
		return nil
	case k.unlooked != nil && m.Container == "":
		p.once(j, saidPlain+"image", "if the job's script or comment says container=, that is not known now, and the step runs on the host: --container IMAGE says it for a step")
	}
	k.own.Container, k.own.From = m.Container, m.From
	return nil
}

// frontOptions are the values of --ckpt at the front of arguments that are not understood,
// or of the environment.
func (p *program) frontOptions(k known) (values []string) {
	front := p.args[:len(p.args)-len(k.call.Args)]
	for i := 0; i < len(front); i++ {
		const name = "--ckpt"
		switch {
		case front[i] == name && i+1 < len(front):
			i++
			values = append(values, front[i])
		case len(front[i]) > len(name) && front[i][:len(name)+1] == name+"=":
			values = append(values, front[i][len(name)+1:])
		}
	}
	if env := p.env("BURST_CKPT"); len(values) == 0 && env != "" {
		values = []string{env}
	}
	return values
}
