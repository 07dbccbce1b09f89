package directive

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Names are what a dir may stand for. Of sbatch's patterns for file names it
// knows %u, %x, %j, %A, %a and %%; "~/" at its front is the user's home.
type Names struct {
	User    string // %u
	Home    string // ~
	Work    string // what a relative dir is below: the job's working directory
	JobName string // %x
	Job     string // %j, unique also for an array's tasks
	Array   string // %A; empty: Job
	Task    string // %a; empty: 0
}

const patterns = "uxjAa%"

func setDir(d *Directive, v string) error {
	if err := plain(v); err != nil {
		return err
	}
	for rest := v; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			break
		}
		if after == "" || !strings.Contains(patterns, after[:1]) {
			return fmt.Errorf("%q holds a %% that is none of %%u, %%x, %%j, %%A, %%a and %%%%", v)
		}
		rest = after[1:]
	}
	if strings.HasPrefix(v, "~") && v != "~" && !strings.HasPrefix(v, "~/") {
		return fmt.Errorf("%q: of homes only ~/ is known", v)
	}
	d.Dir = v
	return nil
}

// Folder is the folder that Dir means for a job; empty if there is none.
func (d Directive) Folder(n Names) string {
	if d.Dir == "" {
		return ""
	}
	array, task := n.Array, n.Task
	if array == "" {
		array = n.Job
	}
	if task == "" {
		task = "0"
	}
	replace := strings.NewReplacer("%u", word(n.User), "%x", word(n.JobName), "%j", word(n.Job), "%A", word(array), "%a", word(task), "%%", "%")
	path, home := strings.CutPrefix(d.Dir, "~")
	path = replace.Replace(path)
	switch {
	case home:
		path = n.Home + path
	case !filepath.IsAbs(path):
		path = filepath.Join(n.Work, path)
	}
	return filepath.Clean(path)
}

// word is a name as one element of a path: a job may be named "../x".
func word(name string) string {
	name = strings.ReplaceAll(name, "/", "_")
	if name == "" || name == "." || name == ".." {
		return "_"
	}
	return name
}
