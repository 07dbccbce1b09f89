package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/firstfile"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow"
)

// checkFolders finds pools of which burst.toml does not say that their nodes have a folder which the site has: Slurm ends a job at once
// that cannot write its output, and a rule of overflow moves none there. The folders are this host's.
func checkFolders(cfg *config.Config, host []firstfile.Folder) []conf.Finding {
	home := cfg.Overflow.OnPrem
	host = slices.DeleteFunc(slices.Clone(host), func(f firstfile.Folder) bool { return lies(f.Target, home.FileSystems) })
	file := filepath.Base(cfg.Path)
	var all []conf.Finding
	for _, p := range cfg.Pools {
		has := p.SharedFolders()
		if len(has) == 0 || p.Slurm.Server {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(host), func(f firstfile.Folder) bool {
			return !slices.ContainsFunc(has, func(of []string) bool { return !lies(f.Target, of) })
		})
		rules := slices.DeleteFunc(slices.Clone(cfg.Overflow.Rules), func(r overflow.Rule) bool { return !slices.Contains(r.To, p.Slurm.Partition) })
		for _, r := range rules {
			f := conf.Finding{Key: "overflow", Have: r.Name, Why: fmt.Sprintf("%s:%d: ", file, r.Line)}
			switch {
			case slices.Contains(cfg.Overflow.Nowhere(r), p.Power.Name):
				f.Level = conf.Wrong
				f.Why += fmt.Sprintf("the rule moves no job that uses a folder, as its home for its output: [pool.%s], line %d, names none that its nodes have. "+
					"Write file_systems = [\"/home\"] there if the image mounts it ([\"/\"]: all that the site's nodes have), or have it mounted by mounts.", p.Power.Name, p.Line)
			case len(missing) > 0:
				f.Level = conf.Advice
				f.Why += fmt.Sprintf("jobs with a folder below %s stay: [pool.%s], line %d, does not name it. Add it there to file_systems if the image mounts it, or to mounts; "+
					"else to file_systems of [onprem], and jobs whose scripts name it stay, too.", named(missing), p.Power.Name, p.Line)
			default:
				continue
			}
			all = append(all, f)
		}
		if len(rules) == 0 && len(missing) > 0 {
			all = append(all, conf.Finding{Level: conf.Advice, Key: "mounts", Have: p.Power.Name, Why: fmt.Sprintf("%s:%d: the pool does not name %s: a job with its output there ends at once, "+
				"with the exit code 0:53 and without a word, unless the image mounts it. Add it to mounts, or to file_systems if the image does; else to file_systems of [onprem].",
				file, p.Line, named(missing))})
		}
	}
	return all
}

// lies says that a path is one of the folders, or below one.
func lies(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(of string) bool { return overflow.Below(path, of) })
}

func named(folders []firstfile.Folder) string {
	words := make([]string, len(folders))
	for i, f := range folders {
		words[i] = f.String()
	}
	return strings.Join(words, ", ")
}
