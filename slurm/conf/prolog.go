package conf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	prologKey = "PrologSlurmctld"
	// timeoutKey is the time for all prologs and epilogs; from Slurm 25.05 on, prologs may have one of their own.
	timeoutKey, ownTimeoutKey = "PrologEpilogTimeout", "PrologTimeout"
	// gateMargin is how much longer a PrologSlurmctld may take than nodes may to
	// boot: slurmctld looks at ResumeTimeout only now and then.
	gateMargin = 5 * time.Minute
	// noTimeout is Slurm's number for no limit; the one above it, of its words for that, are 18 hours.
	noTimeout = 65534
)

// prologs are the programs that slurmctld runs before a job, in the order of slurm.conf.
func (s Site) prologs() []string {
	if len(s.Prologs) > 0 && s.Release.Since(manyPrologs) {
		return s.Prologs
	}
	if have := s.Get(prologKey); have != "" {
		return []string{have}
	}
	return nil
}

// others are the site's own programs among them.
func (s Site) others(p Programs) []string {
	return slices.DeleteFunc(slices.Clone(s.prologs()), func(have string) bool { return have == p.Gate || have == p.Chain })
}

// prolog: the gate, beside what the site has. A Slurm that runs one program alone runs, where the
// site has its own, the script that calls both. A script already in place stays, unless the site's
// own would run twice.
func prolog(site Site, in Input) (want string, ok bool) {
	have, others := site.prologs(), site.others(in.Programs)
	gate, chain := slices.Contains(have, in.Programs.Gate), slices.Contains(have, in.Programs.Chain)
	switch {
	case site.Release.Since(manyPrologs) && len(others) > 0:
		return in.Programs.Gate, gate && !chain
	case len(others) > 0:
		return in.Programs.Chain, false
	case chain:
		return in.Programs.Chain, true
	}
	return in.Programs.Gate, gate
}

func prologWhy(site Site, in Input) string {
	why := "Starts a job when its nodes have registered, not at Slurm's next look up to 30 s later."
	others, chain := strings.Join(site.others(in.Programs), " and "), slices.Contains(site.prologs(), in.Programs.Chain)
	switch {
	case others == "" && chain:
		return why + " The script calls the gate and then the site's own program."
	case others == "":
		return why
	case site.Release.Since(manyPrologs) && chain:
		return why + fmt.Sprintf(" This Slurm runs the program of each PrologSlurmctld line: %s runs twice, by its own line and by the script. "+
			"Write the gate in place of the script.", others)
	case site.Release.Since(manyPrologs):
		return why + fmt.Sprintf(" Beside the line of the site's own %s: this Slurm runs the program of each PrologSlurmctld line, all at once.", others)
	}
	return why + fmt.Sprintf(" The site's own %s is called after it: \"burst genconf --chain\" prints the script that does both.", others)
}

// ChainScript is the text of Programs.Chain for a site that has a
// PrologSlurmctld of its own, and "" where the gate can stand alone or beside
// it, or the script is in place.
func ChainScript(site Site, in Input) string {
	others := site.others(in.Programs)
	if len(others) == 0 || site.Release.Since(manyPrologs) {
		return ""
	}
	return chainScript(others[0], in)
}

func chainScript(program string, in Input) string {
	return fmt.Sprintf("#!/bin/sh\n# PrologSlurmctld: Burst's gate, then the site's own program, whose exit code counts.\nexec %s --then %s\n",
		in.Programs.Gate, program)
}

var then = regexp.MustCompile(`(?m)^[#\s]*exec \S+ --then (\S+)`)

// ChainCalls is the site's own program in a text that holds that script, also as a comment; "" if none is in it.
func ChainCalls(script string) string {
	if m := then.FindStringSubmatch(script); m != nil {
		return m[1]
	}
	return ""
}

// Chained says whether slurmctld calls, or must call, that script.
func Chained(site Site, p Programs) bool {
	return slices.Contains(site.prologs(), p.Chain) || len(site.others(p)) > 0 && !site.Release.Since(manyPrologs)
}

// timeout compares the limit of a PrologSlurmctld. Where the site has none, none is written: slurmctld and every
// slurmd would cut off all prologs and epilogs by it, the site's own ones too, and drain nodes whose Epilog takes
// longer. The gate, which it would be for, ends by itself. One that is too short is made longer, for prologs
// alone where Slurm can tell them apart.
func (f *Finding) timeout(site Site, in Input) (ok bool) {
	f.Key = timeoutKey
	if _, own := site.Settings[strings.ToLower(ownTimeoutKey)]; own {
		f.Key = ownTimeoutKey
	}
	need := 0
	for _, p := range in.Pools {
		need = max(need, int((p.ResumeTimeout+gateMargin)/time.Second))
	}
	f.Have = site.Get(f.Key)
	n, err := strconv.Atoi(f.Have)
	switch {
	case unlimited(f.Have):
		return true
	case err == nil && n >= need:
		f.Want = f.Have
		return true
	case f.Key == timeoutKey && site.Release.Since(prologTimeouts):
		f.Why += fmt.Sprintf(" Until it is set, PrologEpilogTimeout=%s counts; epilogs keep that. A slurmd before %d.%02d does not know this key, and does not start: "+
			"while a host has one, write PrologEpilogTimeout=%d into slurm.conf, and none is needed here.", f.Have, prologTimeouts.Major, prologTimeouts.Minor, need)
		f.Key, f.Have = ownTimeoutKey, ""
	}
	f.Want = strconv.Itoa(need)
	return false
}

// unlimited says that a time limit of prologs is none: slurmctld waits for ever at 0, and for longer than
// any ResumeTimeout at the words, which it reads in any case.
func unlimited(limit string) bool {
	switch strings.ToUpper(limit) {
	case "", "INFINITE", "UNLIMITED":
		return true
	}
	n, err := strconv.Atoi(limit)
	return err == nil && (n == 0 || n >= noTimeout)
}
