package overflow

import (
	"fmt"
	"path"
	"slices"

	"github.com/burst-hpc/burst/slurm"
)

// Shared is what nodes of a pool have of the site's folders.
type Shared struct {
	Pool    string   `json:"pool"`
	Folders []string `json:"folders"` // clean absolute paths; what is below them is there, too
}

// everywhere are folders that every node has of its own.
var everywhere = []string{"/tmp", "/var/tmp", "/dev"}

// lacking begins why a job's folder is not on a pool's nodes.
const lacking = "nodes of pool "

// AtOnce is what becomes of a job without one of its folders, behind what Lacks says of it.
const AtOnce = ": if that is so it ends at once, with the exit code 0:53 and no output, or runs in /tmp"

// Lacks says which folder the job needs that is not known to be on the nodes of one of a partition's pools; "": none. Slurm ends a job at once
// whose output it cannot open, so what is not known to be there must not be counted upon.
func Lacks(pools []Shared, w *slurm.Waiting) string {
	for _, p := range pools {
		for _, of := range pathsOf(w) {
			if !p.has(of.path) {
				return fmt.Sprintf("%s%s do not have %s, %s, as far as burst.toml says (mounts, file_systems)", lacking, p.Pool, path.Clean(of.path), of.what)
			}
		}
	}
	return ""
}

func (s Shared) has(p string) bool {
	in := func(folder string) bool { return Below(p, folder) }
	// Names without a folder are in the working directory, which is asked about, too.
	return !path.IsAbs(p) || path.Clean(p) == "/" || slices.ContainsFunc(everywhere, in) || slices.ContainsFunc(s.Folders, in)
}

// jobPath is a path that the job needs where it runs.
type jobPath struct{ what, path string }

// pathsOf are those that Slurm knows of.
func pathsOf(w *slurm.Waiting) []jobPath {
	return slices.DeleteFunc([]jobPath{{"its working directory", w.WorkDir}, {"its input", w.Stdin}, {"its output", w.Stdout}, {"its error output", w.Stderr}},
		func(p jobPath) bool { return p.path == "" })
}
