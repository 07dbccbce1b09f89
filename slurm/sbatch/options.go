package sbatch

import (
	"strings"
	"sync"
)

type word struct {
	text string
	line int
}

// table are the options of sbatch 22.05 to 24.11, as name,letter, followed by = if an
// argument is required and [=] if it may be left out.
const table = `
account,A= acctg-freq= array,a= autocomplete= batch= bb= bbf= begin,b= chdir,D= cluster-constraint= cluster=
clusters,M= comment= constraint,C= container-id= container= context= contiguous core-spec,S= cores-per-socket=
cpu-freq= cpus-per-gpu= cpus-per-task,c= deadline= delay-boot= dependency,d= distribution,m= error,e= exclude,x=
exclusive[=] export-file= export= extra-node-info,B= extra= get-user-env[=] gid= gpu-bind= gpu-freq= gpus,G=
gpus-per-node= gpus-per-socket= gpus-per-task= gres-flags= gres= help,h hint= hold,H ignore-pbs input,i= job-name,J=
kill-on-invalid-dep= licenses,L= mail-type= mail-user= mcs-label= mem-bind= mem-per-cpu= mem-per-gpu= mem= mincpus=
network= nice[=] no-kill,k[=] no-requeue nodefile,F= nodelist,w= nodes,N= ntasks,n= ntasks-per-core= ntasks-per-gpu=
ntasks-per-node= ntasks-per-socket= ntasks-per-tres= oom-kill-step[=] open-mode= output,o= overcommit,O
oversubscribe,s parsable partition,p= power= prefer= priority= profile= propagate[=] qos,q= quiet,Q reboot requeue
reservation= resv-ports[=] segment= signal= sockets-per-node= spread-job stepmgr switches= tasks-per-node= test-only
thread-spec= threads-per-core= time,t= time-min= tmp= tres-bind= tres-per-task= uid= usage use-min-nodes verbose,v
version,V wait,W wait-all-nodes= wckey= wrap=`

// kind is one option of the table.
type kind struct {
	name         string
	letter       byte // 0: none
	takes, needs bool // an argument
}

var kinds = sync.OnceValue(func() []kind {
	var all []kind
	for _, w := range strings.Fields(table) {
		var k kind
		if name, ok := strings.CutSuffix(w, "[=]"); ok {
			w, k.takes = name, true
		} else if name, ok := strings.CutSuffix(w, "="); ok {
			w, k.takes, k.needs = name, true, true
		}
		name, letter, _ := strings.Cut(w, ",")
		k.name = name
		if letter != "" {
			k.letter = letter[0]
		}
		all = append(all, k)
	}
	return all
})

// named finds an option by its name, or by the beginning of one alone.
func named(name string) (kind, bool) {
	var found []kind
	for _, k := range kinds() {
		switch {
		case k.name == name:
			return k, true
		case strings.HasPrefix(k.name, name):
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		return kind{}, false
	}
	return found[0], true
}

// options reads words as getopt_long does. What is no option is left out: sbatch
// refuses such a script by itself.
func options(words []word) []Option {
	var all []Option
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		next := func() string { // the word that is an option's argument
			if len(words) == 0 {
				return ""
			}
			v := words[0].text
			words = words[1:]
			return v
		}
		switch {
		case strings.HasPrefix(w.text, "--"):
			name, value, has := strings.Cut(w.text[2:], "=")
			k, known := named(name)
			switch {
			case known && k.needs && !has:
				value = next()
			case !known && !has && len(words) > 0 && !strings.HasPrefix(words[0].text, "-"):
				value = next() // as a plugin's may be
			}
			if known {
				name = k.name
			}
			all = append(all, Option{name, value, w.line})
		case strings.HasPrefix(w.text, "-"):
			all = append(all, letters(w, next)...)
		}
	}
	return all
}

// letters reads the letters of one word, of which the last may have an argument.
func letters(w word, next func() string) []Option {
	var all []Option
	for i := 1; i < len(w.text); i++ {
		k, known := lettered(w.text[i])
		if !known {
			return all
		}
		o := Option{k.name, "", w.line}
		if k.takes {
			o.Value = w.text[i+1:]
			if o.Value == "" && k.needs {
				o.Value = next()
			}
		}
		all = append(all, o)
		if k.takes {
			break
		}
	}
	return all
}

func lettered(c byte) (kind, bool) {
	for _, k := range kinds() {
		if k.letter == c {
			return k, true
		}
	}
	return kind{}, false
}
