package firstfile

import (
	"fmt"
	"path"
	"strings"
)

// wanted are the folders of an answer.
type wanted struct {
	mounts []mount
	image  []string // that the image mounts
}

type mount struct{ kind, source, target string }

// readFolders reads "nas:/home, nas:/export/projects=/projects, fs-0123=/data, /opt/apps".
func readFolders(answer, provider string) (w wanted, err error) {
	for _, word := range strings.Split(answer, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		source, target, elsewhere := strings.Cut(word, "=")
		_, at, server := strings.Cut(source, ":")
		m := mount{"nfs", strings.TrimSpace(source), strings.TrimSpace(target)}
		switch {
		case path.IsAbs(word) && !elsewhere:
			w.image = append(w.image, path.Clean(word))
			continue
		case strings.Contains(m.source, "@tcp:/"):
			m.kind = "fsx"
		case strings.HasPrefix(m.source, "fs-") && provider != "aws":
			return w, fmt.Errorf("%q is a file system of AWS's, which has none at this provider", word)
		case strings.HasPrefix(m.source, "fs-"):
			m.kind = "efs"
		case !server || !path.IsAbs(at):
			return w, fmt.Errorf("%q is no folder: write SERVER:/path, SERVER:/path=/target, or /path alone if the image mounts it", word)
		case !elsewhere:
			m.target = at
		}
		if !path.IsAbs(m.target) || path.Clean(m.target) == "/" {
			return w, fmt.Errorf("%q does not say where nodes mount it: write %s=/target", word, m.source)
		}
		m.target = path.Clean(m.target)
		w.mounts = append(w.mounts, m)
	}
	return w, nil
}

// mountsHere are the folders that this host mounts by NFS, as an answer: nodes may do the same.
func mountsHere(f Found, _ Answers) string {
	var all []string
	for _, of := range f.Folders {
		if word := of.answer(); word != "" {
			all = append(all, word)
		}
	}
	return strings.Join(all, ",")
}

// answer is the folder as one mounts it on nodes; "": that is not known.
func (f Folder) answer() string {
	_, at, server := strings.Cut(f.Source, ":")
	switch {
	case f.Kind != "nfs" && f.Kind != "nfs4" || !server || strings.ContainsAny(f.Source+f.Target, "[]=, \"\\\r\n"):
		return ""
	case at == f.Target:
		return f.Source
	}
	return f.Source + "=" + f.Target
}

// notMounted names those that this host has otherwise.
func notMounted(f Found, _ Answers) string {
	var all []string
	for _, of := range f.Folders {
		if of.answer() == "" {
			all = append(all, of.String())
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "this host has " + strings.Join(all, ", ") + ", which nodes have only if you name it"
}

// folders writes which of the site's folders nodes have.
func (w *writer) folders(a Answers) {
	want, err := readFolders(a["folders"], a["provider"])
	if err != nil {
		return // it is told before anything is written
	}
	if len(want.mounts) > 0 {
		var b strings.Builder
		for _, m := range want.mounts {
			fmt.Fprintf(&b, "  { kind = %s, source = %s, target = %s },\n", quote(m.kind), quote(m.source), quote(m.target))
		}
		w.set("What nodes mount before a job starts, as the homes: jobs write their output there. A node that\ncannot is none. docs/shared-folders.md has options for a VPN.", "mounts", "[\n"+b.String()+"]")
	}
	if len(want.image) > 0 {
		w.set("Folders of the site that the image mounts by itself.", "file_systems", list(strings.Join(want.image, ",")))
	}
	if len(want.mounts)+len(want.image) == 0 {
		w.comment("Nodes have none of the site's folders: a job with its output in a home ends at once there, with the\n" +
			"exit code 0:53. Have nodes mount them (docs/shared-folders.md), or name those that the image mounts.")
		w.WriteString("#mounts = [{ kind = \"nfs\", source = \"nas.example.org:/home\", target = \"/home\" }]\n#file_systems = [\"/home\"]\n")
	}
}
