package mpi

import (
	"regexp"
	"slices"
	"strings"
)

var typeWord = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// ReadTypes reads what `srun --mpi=list` prints: the types that the site's Slurm offers. Older
// versions print it with "srun:" before each line, newer ones name those of PMIx in a line.
func ReadTypes(out string) []string {
	var types []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "srun:"))
		if _, versions, ok := strings.Cut(line, "versions available:"); ok {
			for v := range strings.SplitSeq(versions, ",") {
				if v = strings.TrimSpace(v); typeWord.MatchString(v) {
					types = append(types, v)
				}
			}
			continue
		}
		if typeWord.MatchString(line) {
			types = append(types, line)
		}
	}
	return types
}

// speaks is the protocol of a type of srun's; ok says that it is a known one.
func speaks(typ string) (p PMI, ok bool) {
	switch {
	case typ == "pmix" || strings.HasPrefix(typ, "pmix_v"):
		return PMIx, true
	case typ == "pmi2":
		return PMI2, true
	case typ == "none", typ == "openmpi":
		return PMI1, true
	}
	return "", false
}

// offered is the type of srun's by which a protocol is spoken; "": the site has none.
func offered(types []string, p PMI) string {
	if slices.Contains(types, string(p)) {
		return string(p)
	}
	best := ""
	for _, t := range types {
		if is, ok := speaks(t); ok && is == p && p == PMIx && t > best {
			best = t // pmix_v5 over pmix_v4
		}
	}
	return best
}
