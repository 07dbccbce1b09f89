package tree

import "strings"

const module = "github.com/burst-hpc/burst/"

// room is a package, or with "/..." at its end all packages below too, and
// what of ours its code may import; tests may import anything. A package that
// no room names is an error: name it here and in docs/architecture.md first.
type room struct {
	path string
	may  []string // the same patterns; empty: a leaf
}

const anything = "..."

// rooms, first match first.
var rooms = []room{
	// Leaves.
	{"slurm/hostlist", nil},
	{"slurm/directive", nil},
	{"slurm/sbatch", nil},
	{"slurm/slurmd", nil},
	{"cloud", nil},
	{"ft/ckpt", nil},

	{"slurm", []string{"slurm/hostlist"}},

	// Slurm and its leaves.
	{"slurm/conf", slurmAndLeaves},
	{"slurm/sandbox", slurmAndLeaves},
	{"slurm/step/...", append([]string{"slurm/step"}, slurmAndLeaves...)},
	{"slurm/slurmtest", slurmAndLeaves},
	{"slurm/overflow", append([]string{"cloud/price"}, slurmAndLeaves...)},
	{"slurm/overflow/budget", []string{"cloud/price"}},
	{"slurm/health", []string{"slurm", "slurm/hostlist"}},
	{"slurm/power", []string{"slurm", "slurm/hostlist", "cloud", "cloud/fleet"}},

	// A provider knows its cloud, and nothing of Slurm or of its siblings.
	{"cloud/local", []string{"cloud", "slurm/slurmd"}},
	{"cloud/fleet", []string{"cloud"}},
	{"cloud/price", []string{"cloud"}},
	{"cloud/names", nil},
	{"cloud/recent", nil},
	{"cloud/bootstrap", []string{"cloud"}},
	{"cloud/bootstrap/ssh", nil},
	{"cloud/bootstrap/ssh/sshtest", nil},
	{"cloud/aws/...", []string{"cloud", "cloud/names", "cloud/recent", "cloud/aws/..."}},
	{"cloud/vultr", []string{"cloud", "cloud/names", "cloud/recent", "cloud/price"}}, // a month's price is by the hours that are billed
	{"cloud/vultr/...", []string{"cloud", "cloud/names", "cloud/vultr/..."}},
	{"cloud/cloudtest", []string{"cloud"}},

	// ft asks Slurm, and Slurm calls us: never slurm/power.
	{"ft/notice", []string{"cloud"}},
	{"ft/session", []string{"ft/ckpt"}},
	{"ft/session/sessiontest", []string{"ft/session"}},
	{"ft/ckpt/...", []string{"ft/ckpt"}},
	{"ft", append([]string{"cloud", "ft/..."}, slurmAndLeaves...)},

	{"cmd/...", []string{anything}},
	{"contrib/...", nil},
	{"packaging/...", []string{"packaging/..."}},
}

var slurmAndLeaves = []string{"slurm", "slurm/hostlist", "slurm/directive", "slurm/slurmd"}

// guests are modules of others that stay in the rooms named.
var guests = []struct {
	module string
	in     []string
}{
	{"github.com/BurntSushi/toml", []string{"cmd/internal/config", "cmd/internal/endpoint"}},
	{"modernc.org/sqlite", []string{"cmd/internal/store"}},
	{"github.com/spf13/cobra", []string{"cmd/..."}},
	{"github.com/prometheus/client_golang", []string{"cmd/..."}},
	{"github.com/aws", []string{"cloud/aws/..."}},
	{"gonum.org/v1/plot", []string{"cmd/internal/benchft"}},
	{"github.com/vultr", []string{"cloud/vultr/..."}},
	{"github.com/pkg/sftp", []string{"cloud/bootstrap/ssh"}},
	{"golang.org/x/crypto/ssh", []string{"cloud/bootstrap/ssh/...", "cmd/internal/daemon"}},
}

// programs are the rooms of cmd.
var programs = []string{
	"burst", "burst-agent", "burst-gate", "burst-resume", "burst-resume-fail", "burst-srun", "burst-suspend", "burstd",
	"internal",
}

// internals are the rooms of cmd/internal.
var internals = []string{
	"agent", "api", "bench", "benchft", "chaos", "cli", "clouds", "config", "crash", "daemon", "demo", "e2e", "endpoint", "firstfile", "handover", "history", "hostcheck", "imaging", "jobword", "journald", "ledger", "munge", "nodeapi",
	"paidhour", "passwd", "rehearse", "resumetest", "rig", "spending", "spool", "srun", "steprecord", "stopall", "store", "tree", "vacated",
}

// top is what may lie at the top, besides names that begin with a dot.
var top = []string{
	"cmd", "slurm", "cloud", "ft", "contrib", "packaging", "docs", "build", "dist",
	"go.mod", "go.sum", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md",
}

// matches says whether path is what pattern names.
func matches(pattern, path string) bool {
	if pattern == anything {
		return true
	}
	if base, below := strings.CutSuffix(pattern, "/..."); below {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

func matchesAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if matches(p, path) {
			return true
		}
	}
	return false
}

// forbids says why the package at path, relative to the module, may not
// import imported; "" if it may.
func forbids(path, imported string) string {
	ours, ok := strings.CutPrefix(imported, module)
	if !ok {
		for _, g := range guests {
			if matches(g.module+"/...", imported) && !matchesAny(g.in, path) {
				return g.module + " stays in " + strings.Join(g.in, ", ")
			}
		}
		return ""
	}
	for _, r := range rooms {
		if !matches(r.path, path) {
			continue
		}
		switch {
		case strings.HasPrefix(ours, "cmd/") && !strings.HasPrefix(path, "cmd/"):
			return "nothing imports cmd"
		case matchesAny(r.may, ours):
			return ""
		case len(r.may) == 0:
			return path + " is a leaf"
		}
		return path + " may import " + strings.Join(r.may, ", ")
	}
	return path + " is no room that the rules know"
}
