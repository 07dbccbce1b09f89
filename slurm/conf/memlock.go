package conf

import (
	"slices"
	"strings"
)

const (
	except = "PropagateResourceLimitsExcept"
	only   = "PropagateResourceLimits"
)

const memlockWhy = "MPI over EFA locks memory: its ranks need slurmd's limit, which on the cloud's nodes is none, not the one of the " +
	"login node, which Slurm gives to jobs. This is cluster-wide: see that slurmd on the site's own nodes has none either " +
	"(LimitMEMLOCK=infinity in its unit)."

// memlock has Slurm leave a rank's limit of locked memory as slurmd has it, where nodes have EFA. Of
// the two settings the one counts that names exceptions, and Slurm wants no more than one.
func memlock(site Site, in Input) []Finding {
	if !slices.ContainsFunc(in.Pools, func(p Pool) bool { return p.EFA }) {
		return nil
	}
	f := Finding{Level: OK, Key: except, Have: site.Get(except), Why: memlockWhy}
	limits, drop := words(f.Have), "NONE"
	if given := words(site.Get(only)); f.Have == "" && len(given) > 0 && !has(given, "ALL") {
		f.Key, f.Have, limits, drop = only, site.Get(only), given, "MEMLOCK"
	}
	if f.Want = f.Have; !HandsOnMemlock(site) {
		return []Finding{f}
	}
	limits = slices.DeleteFunc(limits, isLimit(drop))
	switch {
	case f.Key == except:
		limits = append(limits, "MEMLOCK")
	case len(limits) == 0:
		limits = []string{"NONE"}
	}
	f.Level, f.Want = Wrong, strings.Join(limits, ",")
	if f.Have == "" {
		f.Level = Missing
	}
	return []Finding{f}
}

// HandsOnMemlock says whether Slurm gives a job's ranks the limit of locked memory of who submits it.
func HandsOnMemlock(site Site) bool {
	if exceptions := words(site.Get(except)); len(exceptions) > 0 {
		return !has(exceptions, "MEMLOCK") && !has(exceptions, "ALL")
	}
	limits := words(site.Get(only))
	return len(limits) == 0 || has(limits, "ALL") || has(limits, "MEMLOCK")
}

func has(limits []string, name string) bool { return slices.ContainsFunc(limits, isLimit(name)) }

// isLimit says whether a word is Slurm's name of a limit, which may have a prefix.
func isLimit(name string) func(string) bool {
	return func(word string) bool { return strings.TrimPrefix(strings.ToUpper(word), "RLIMIT_") == name }
}
