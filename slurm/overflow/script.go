package overflow

import (
	"errors"
	"path"
	"strings"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

// Script is what matters of a job's batch script and comment.
type Script struct {
	Said  map[string]string // its #BURST lines, by key; those of the comment are over them
	Uses  string            // the on-prem file system that it names a path below; "": none
	Wrong string            // why its #BURST lines, or its comment, cannot be read; "": they can
}

// Read reads a job's script.
func (o OnPrem) Read(script string) Script {
	s := Script{Said: map[string]string{}}
	l, err := directive.ReadScript(script)
	if err != nil {
		s.Wrong = "its #BURST lines are wrong: " + err.Error()
	}
	for _, set := range l.Settings {
		s.Said[set.Key] = set.Value
	}
	for _, fs := range o.FileSystems {
		if mentions(script, fs) {
			s.Uses = fs
			break
		}
	}
	return s
}

// over is the script with what the comment says over it. What a comment with a mistake means is not known: it may be stay.
func (s Script) over(comment string) Script {
	user, site, err := directive.ReadComment(comment)
	if err != nil {
		what := err.Error()
		if wrong := new(directive.Error); errors.As(err, &wrong) {
			what = strings.TrimLeft(wrong.What(), ": ")
		}
		s.Wrong = "its comment is wrong: " + what
		return s
	}
	if len(user.Settings)+len(site.Settings) == 0 {
		return s
	}
	said := map[string]string{}
	for _, set := range site.Settings {
		said[set.Key] = set.Value
	}
	for key, v := range s.Said {
		said[key] = v
	}
	for _, set := range user.Settings {
		said[set.Key] = set.Value
	}
	s.Said = said
	return s
}

// mentions says whether the text holds a path that is the folder or below it.
func mentions(text, folder string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], folder)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(folder)
		if (from == 0 || !inPath(text[from-1])) && (to == len(text) || text[to] == '/' || !inPath(text[to])) {
			return true
		}
		at = from + 1
	}
}

// inPath says whether a byte goes on with a name in a path.
func inPath(c byte) bool {
	return c == '/' || c == '_' || c == '-' || c == '.' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Below says whether a job's path is the folder or below it.
func Below(p, folder string) bool {
	p = path.Clean(p)
	return p == folder || strings.HasPrefix(p, strings.TrimSuffix(folder, "/")+"/")
}

// uses says what the job uses that is on-prem only; "": nothing that Slurm knows of.
func (o OnPrem) uses(j *job) string {
	for _, l := range j.licenses {
		if lists(o.Licenses, l) && len(o.Licenses) > 0 {
			return "asks for licence " + l + ", which is on-prem only"
		}
	}
	for _, f := range j.features {
		if lists(o.Features, f) && len(o.Features) > 0 {
			return "asks for feature " + f + ", which is on-prem only"
		}
	}
	for _, of := range pathsOf(j.Waiting) {
		for _, fs := range o.FileSystems {
			if Below(of.path, fs) {
				return of.what + " is below " + fs + ", which is on-prem only"
			}
		}
	}
	return ""
}

// wordsOf are the names in a --constraint, without counts and signs.
func wordsOf(constraint string) []string {
	if constraint == "" {
		return nil
	}
	var all []string
	for _, w := range strings.FieldsFunc(constraint, func(r rune) bool { return strings.ContainsRune("&|,[]()", r) }) {
		name, _, _ := strings.Cut(w, "*")
		if name != "" && !strings.HasPrefix(name, "!") {
			all = append(all, name)
		}
	}
	return all
}

// licensesOf are the names in a job's --licenses.
func licensesOf(list string) []string {
	if list == "" {
		return nil
	}
	var all []string
	for _, w := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(",;|", r) }) {
		name, _, _ := strings.Cut(w, ":")
		all = append(all, name)
		if local, server, at := strings.Cut(name, "@"); at && server != "" {
			all = append(all, local)
		}
	}
	return all
}

// newJob reads of a pending job what is compared with rules.
func newJob(w *slurm.Waiting, partitions []string) *job {
	j := &job{Waiting: w, partitions: partitions, features: wordsOf(w.Features), licenses: licensesOf(w.Licenses)}
	for _, of := range []string{w.PerNode, w.PerJob, w.PerTask, w.PerSocket} {
		if of == "" {
			continue
		}
		counts, ok := slurm.Gres(of)
		if !ok {
			j.unclear = of
		}
		for name, n := range counts {
			if j.gres == nil {
				j.gres = map[string]int{}
			}
			j.gres[name] += n
		}
	}
	return j
}
