package step

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Arg says whether an option has an argument.
type Arg int

const (
	NoArg    Arg = iota
	Required     // attached, or the next word
	Optional     // attached only: -K1, --nice=5
)

// Option is an option of srun's, or of a program that stands in for it.
type Option struct {
	Name  string // long
	Short byte   // 0: it has none
	Arg   Arg
	Own   bool // of the program that stands in: known by its whole name only, and not srun's to see

	since, until string // versions of Slurm, "" for always
}

// known are srun's options from 22.05 to 26.05, as name,letter, followed by =
// if an argument is required and [=] if it may be left out, and by @first-last
// where only some versions have it. --pty takes an argument from 23.02 on.
const known = `
accel-bind= account,A= acctg-freq= async@26.05- autocomplete=@23.02- bb= bbf= bcast[=] bcast-exclude= begin,b=
chdir,D= cluster= cluster-constraint= clusters,M= comment= compress[=] consolidate-segments@25.11-
constraint,C= container= container-id=@23.02- container-type=@26.05- context= contiguous core-spec,S=
cores-per-socket= cpu-bind= cpu-freq= cpu_bind= cpus-per-gpu= cpus-per-task,c= deadline= debugger-test
delay-boot= dependency,d= disable-status,X distribution,m= epilog= error,e= exact exclude,x= exclusive[=]
export= external-launcher[=]@23.11- extra=@23.02- extra-node-info,B= gid=@-23.02 gpu-bind= gpu-freq= gpus,G=
gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= help,h het-group= hint= hold,H
ignore-signals=@26.05- immediate,I[=] input,i= interactive job-name,J= jobid= kill-on-bad-exit,K[=] label,l
licenses,L= mail-type= mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mem-update=@26.05-
mincpus= mpi= msg-timeout= multi-prog network= nice[=] no-allocate,Z no-kill,k[=] nodefile,F= nodelist,w=
nodes,N= ntasks,n= ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket= ntasks-per-tres=
oom-kill-step[=]@24.11- open-mode= output,o= overcommit,O overlap[=] oversubscribe,s pack-group=
parsable@26.05- partition,p= power=@-23.11 prefer= preserve-env,E priority= profile= prolog= propagate[=]
pty[=] qos,q= quiet,Q quit-on-interrupt reboot relative,r= reservation= resources=@25.11- resv-ports[=]
segment=@24.05- send-libs[=] signal= slurmd-debug= sockets-per-node= spread-job spread-segments@25.11-
stepmgr@24.05- switches= task-epilog= task-prolog= tasks-per-node= test-only thread-spec= threads,T=
threads-per-core= time,t= time-min= tmp= treewidth=@23.11- tres-bind=@23.11- tres-per-task=@23.02- uid=@-23.02
unbuffered,u usage use-min-nodes verbose,v version,V wait,W= wait-for-children@25.05- wckey= whole x11[=]`

var all = sync.OnceValue(func() []Option {
	var options []Option
	for _, word := range strings.Fields(known) {
		var o Option
		word, versions, _ := strings.Cut(word, "@")
		o.since, o.until, _ = strings.Cut(versions, "-")
		if w, ok := strings.CutSuffix(word, "[=]"); ok {
			word, o.Arg = w, Optional
		} else if w, ok := strings.CutSuffix(word, "="); ok {
			word, o.Arg = w, Required
		}
		name, letter, short := strings.Cut(word, ",")
		o.Name = name
		if short {
			o.Short = letter[0]
		}
		options = append(options, o)
	}
	return options
})

// Options are srun's: those of the version, which is what `srun --version`
// prints or its number; of all versions if it is empty or cannot be read.
func Options(version string) []Option {
	v := number.FindString(version)
	if v == "" {
		return slices.Clone(all())
	}
	var has []Option
	for _, o := range all() {
		// "22.05" and the like compare as text.
		if o.since <= v && (o.until == "" || v <= o.until) {
			has = append(has, o)
		}
	}
	return has
}

var number = regexp.MustCompile(`\b[2-9]\d\.\d\d`)

var helpLine = regexp.MustCompile(`(?m)^ {1,8}(?:-([A-Za-z]), {0,2})?--([A-Za-z0-9][A-Za-z0-9_-]*)(\[?=\S*)?`)

// optional is how plugins write an argument that may be left out: there is no
// other sign of it. "[USER@]IMAGE" is none.
var optional = regexp.MustCompile(`^=?\[[^\[\]]*\]$`)

// Learn adds to options those that `srun --help` prints and that they lack: of
// the site's SPANK plugins, and of newer versions.
func Learn(options []Option, help string) []Option {
	options = slices.Clone(options)
	for _, m := range helpLine.FindAllStringSubmatch(help, -1) {
		o := Option{Name: m[2]}
		switch {
		case m[3] == "":
		case optional.MatchString(m[3]):
			o.Arg = Optional
		default:
			o.Arg = Required
		}
		if m[1] != "" && !slices.ContainsFunc(options, func(h Option) bool { return h.Short == m[1][0] }) {
			o.Short = m[1][0]
		}
		if !slices.ContainsFunc(options, func(h Option) bool { return h.Name == o.Name }) {
			options = append(options, o)
		}
	}
	return options
}
