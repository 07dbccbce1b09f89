package srun

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// idle are srun's options that a program which is started without srun does as well
// without: they say how much of the job a step gets, or how srun goes about it. Any other,
// as one of a site's plugin, changes what the user gets.
var idle = strings.Fields(`accel-bind account acctg-freq bb bbf begin cluster-constraint comment consolidate-segments
constraint contiguous core-spec cores-per-socket cpu-bind cpu-freq cpu_bind cpus-per-gpu cpus-per-task deadline
debugger-test delay-boot dependency disable-status distribution exact exclusive extra extra-node-info gpu-bind gpu-freq
gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint hold immediate interactive job-name jobid
kill-on-bad-exit licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mem-update mincpus mpi
msg-timeout network nice no-kill nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
ntasks-per-tres oom-kill-step open-mode overcommit overlap oversubscribe partition power prefer preserve-env priority
profile propagate pty qos quiet quit-on-interrupt reboot reservation resv-ports segment slurmd-debug sockets-per-node
spread-job spread-segments stepmgr switches tasks-per-node thread-spec threads threads-per-core time-min tmp treewidth
tres-bind tres-per-task unbuffered use-min-nodes verbose wait wait-for-children wckey whole`)

// instead is what to do for an option where srun is left out.
var instead = map[string]string{
	"input": "redirect in the shell, with <", "output": "redirect in the shell, with >", "error": "redirect in the shell, with 2>",
	"chdir": "cd there before it", "export": "export the variables before it, or give them to it", "time": "write timeout before it",
}

// srunOnly is an option of srun's that the step would lack if it were started without
// srun, as the user gave it, and what to do instead; "" if there is none.
func (f facts) srunOnly(env func(string) string) (option, do string) {
	if f.garbled != nil || len(f.call.Parts) == 0 {
		return "", ""
	}
	names := []string{"input", "output", "error"} // of the environment as well
	for _, g := range f.call.Parts[0].Options {
		names = append(names, g.Name)
	}
	for _, name := range names {
		value, has := f.call.Value(name, env)
		if !has || f.needless(name, value) {
			continue
		}
		if option = "--" + name; value != "" {
			option += "=" + value
		}
		if !f.call.Has(name) {
			option += " of the environment"
		}
		return option, cmp.Or(instead[name], "give it its own option for that, or leave it out")
	}
	return "", ""
}

// needless says that a program which is started on the batch host, without srun, has
// what the option asks for.
func (f facts) needless(name, value string) bool {
	switch name {
	case "input", "output", "error":
		return value == "" || value == "all" || name == "input" && value == "0"
	case "export":
		return strings.EqualFold(value, "all")
	case "nodelist", "exclude", "relative", "nodefile":
		return f.job.Nodes == 1
	}
	return slices.Contains(idle, name)
}

// alone says why a launcher cannot be started without srun.
func (f facts) alone(env func(string) string) error {
	option, do := f.srunOnly(env)
	if option == "" {
		return nil
	}
	return fmt.Errorf("%s is for srun, and %s is started without srun: %s", option, f.call.Program()[0], do)
}
