package container

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Run is a program that is to run in an image.
type Run struct {
	Tool    Tool
	Image   string   // a path
	Dir     string   // the working folder, the same inside as outside
	Binds   []string // folders that are to be there inside, as outside; some may not exist
	Program []string
}

// Node is what a node has that ranks need inside.
type Node struct {
	NVIDIA, AMD bool // devices of theirs
	// EFA is the folder of the node's libfabric for its EFA; "": it has none.
	EFA string
	// Exists says whether a folder is there.
	Exists func(dir string) bool
}

// Line is the command line. The tool passes the environment on as it is, and brings the
// home folder, /tmp, /dev and what the site has in its own configuration.
func (r Run) Line(n Node) []string {
	line := []string{r.Tool.Path, "exec"}
	if n.NVIDIA {
		line = append(line, "--nv")
	}
	if n.AMD {
		line = append(line, "--rocm")
	}
	for _, dir := range r.binds(n) {
		line = append(line, bind(dir)...)
	}
	if r.Dir != "" {
		line = append(line, "--pwd", r.Dir)
	}
	return append(append(line, r.Image), r.Program...)
}

// bind is the option that has a folder inside. --bind parts its words by commas and colons;
// --mount, which older tools lack, reads a line of CSV.
func bind(dir string) []string {
	if !strings.ContainsAny(dir, ",:\"") {
		return []string{"--bind", dir}
	}
	quoted := strings.ReplaceAll(dir, `"`, `""`)
	return []string{"--mount", fmt.Sprintf(`type=bind,"source=%s","destination=%s"`, quoted, quoted)}
}

// binds are the folders that are there, each once, and those below others left out.
func (r Run) binds(n Node) []string {
	want := append([]string{r.Dir}, r.Binds...)
	if n.EFA != "" {
		want = append(want, n.EFA)
	}
	var all []string
	for _, dir := range want {
		if !filepath.IsAbs(dir) || dir == "/" {
			continue
		}
		dir = filepath.Clean(dir)
		if n.Exists(dir) && !slices.Contains(all, dir) && !slices.ContainsFunc(brought, func(b string) bool { return below(dir, b) }) {
			all = append(all, dir)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(dir string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return other != dir && below(dir, other) })
	})
}

// brought are folders that the image's own are never to be hidden by, or that the tools
// bring themselves whatever is asked.
var brought = []string{"/proc", "/sys", "/dev", "/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc"}

// below says whether dir is a folder or in it.
func below(dir, folder string) bool {
	return dir == folder || strings.HasPrefix(dir, folder+"/")
}

// launchers are the variables by which a rank finds the others and its launcher.
var launchers = []string{"PMI_", "PMI2_", "PMIX_", "SLURM_", "SLURMD_", "OMPI_", "PRTE_", "MPICH_", "I_MPI_", "MV2_", "UCX_", "FI_", "OMP_", "BURST_", "SCR_",
	"MVP_", "MPIR_CVAR_", "KMP_", "PSM2_", "PSM3_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}

// Environ is the environment that the tool is to have. Where the user keeps the host's out
// (--cleanenv), what MPI needs is handed on by name; and the node's libfabric is found
// before the image's.
func (r Run) Environ(n Node, environ []string) []string {
	p := strings.TrimSuffix(r.Tool.prefix(), "_") + "ENV_"
	has := func(name string) (string, bool) {
		for _, kv := range slices.Backward(environ) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
	all := slices.Clone(environ)
	if clean(has) {
		for _, kv := range environ {
			name, _, _ := strings.Cut(kv, "=")
			if _, set := has(p + name); !set && slices.ContainsFunc(launchers, func(l string) bool { return strings.HasPrefix(name, l) }) {
				all = append(all, p+kv)
			}
		}
	}
	if _, set := has(p + "LD_LIBRARY_PATH"); n.EFA != "" && !set {
		all = append(all, p+"LD_LIBRARY_PATH="+n.EFA+"/lib64:"+n.EFA+"/lib:/.singularity.d/libs")
	}
	return all
}

// Writable says whether the user has the tool run images so that ranks can write to them: a
// folder that the image lacks cannot be bound then.
func Writable(env func(string) string) bool {
	for _, p := range prefixes {
		if v := env(p + "WRITABLE"); v != "" && v != "0" && !strings.EqualFold(v, "false") {
			return true
		}
	}
	return false
}

// clean says whether the user keeps the host's environment out.
func clean(has func(string) (string, bool)) bool {
	for _, p := range prefixes {
		for _, name := range []string{"CLEANENV", "CONTAINALL"} {
			if v, ok := has(p + name); ok && v != "" && v != "0" && !strings.EqualFold(v, "false") {
				return true
			}
		}
	}
	return false
}
