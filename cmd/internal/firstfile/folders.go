package firstfile

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/slurm/overflow"
)

// Folder is one of this host that nodes at the site are likely to have, too, and nodes of a cloud only if somebody sees to it.
type Folder struct {
	Kind   string // of its file system, as the kernel calls it; "": it is on this host's disk
	Source string // "nas:/home"; may be empty
	Target string
}

// networks are file systems of which several hosts may have one. autofs is what mounts them when they are used.
var networks = []string{"nfs", "nfs4", "autofs", "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "fuse.ceph", "fuse.ceph-fuse", "cifs", "smb3", "afs", "fuse.glusterfs", "panfs", "wekafs", "pvfs2", "ocfs2", "gfs2"}

// hosts are places in which each host has what is its own, or this one what no node may have, as slurmctld's state.
var hosts = []string{"/proc", "/sys", "/dev", "/run", "/boot", "/efi", "/etc", "/tmp", "/var"}

// Folders are those below root: the network file systems, and the homes, wherever they are. One within another is not named.
func Folders(root string) []Folder {
	text, err := os.ReadFile(filepath.Join(root, "proc/mounts"))
	var all []Folder
	if err == nil {
		all = folders(string(text))
	}
	if !slices.ContainsFunc(all, func(f Folder) bool { return overflow.Below("/home", f.Target) }) && hasHomes(filepath.Join(root, "home")) {
		all = append(all, Folder{Target: "/home"})
	}
	return outermost(all)
}

// folders reads /proc/mounts.
func folders(text string) (all []Folder) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 || !slices.Contains(networks, words[2]) {
			continue
		}
		f := Folder{Kind: words[2], Source: unescape(words[0]), Target: filepath.Clean(unescape(words[1]))}
		if f.Target == "/" || slices.ContainsFunc(hosts, func(of string) bool { return overflow.Below(f.Target, of) }) {
			continue
		}
		if f.Kind == "autofs" {
			f.Source = "" // a map, or systemd
		}
		if i := slices.IndexFunc(all, func(o Folder) bool { return o.Target == f.Target }); i >= 0 {
			all[i] = f // the last is over the others, as what autofs has mounted
			continue
		}
		all = append(all, f)
	}
	return all
}

// outermost leaves out what lies within another.
func outermost(all []Folder) []Folder {
	return slices.DeleteFunc(slices.Clone(all), func(f Folder) bool {
		return slices.ContainsFunc(all, func(o Folder) bool { return o.Target != f.Target && overflow.Below(f.Target, o.Target) })
	})
}

// hasHomes says that somebody has a home there.
func hasHomes(dir string) bool {
	all, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(all, func(e os.DirEntry) bool { return e.IsDir() && e.Name() != "lost+found" })
}

// unescape reads the kernel's \040.
func unescape(word string) string {
	if !strings.Contains(word, `\`) {
		return word
	}
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] == '\\' && i+4 <= len(word) {
			if n, err := strconv.ParseUint(word[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(word[i])
	}
	return b.String()
}

// String is the folder in words.
func (f Folder) String() string {
	switch {
	case f.Kind == "":
		return f.Target + " (this host's disk)"
	case f.Source == "":
		return f.Target + " (" + f.Kind + ")"
	}
	return f.Target + " (" + f.Kind + " " + f.Source + ")"
}
