// Package firstfile makes a site's first burst.toml of a few answers, with what is found on the
// controller as their defaults.
package firstfile

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Found is what the controller says without being asked.
type Found struct {
	SlurmConf string // slurm.conf; empty: not found
	Usual     bool   // it is where Burst looks by itself
	Cluster   string // ClusterName
	SlurmUser string
	Slurm     conf.Release // of slurmctld
	Nodes     []string     // the site's own
	Taken     []string     // partitions that there are
	All       []string     // those of them with Nodes=ALL
	Host      string       // the name of this host
	Ctlds     []string     // the hosts of slurmctld, the first of them first
	Folders   []Folder     // that nodes of the site are likely to have, too

	AWS, Vultr       bool // the environment is one of somebody who uses it
	Profile, Region  string
	MungeKey, APIKey bool // there is a file for it in /etc/burst
}

// slurmConfs are where slurm.conf is by default: of the distributions' packages, and of Slurm's own and OpenHPC's builds.
var slurmConfs = []string{"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf"}

// Look looks around below root, with the environment env.
func Look(ctx context.Context, root string, env func(string) string) Found {
	f := Found{Host: "head.example.org"}
	if name, err := os.Hostname(); err == nil {
		f.Host = name
	}
	f.slurm(root, env("SLURM_CONF"))
	f.Slurm = release(ctx, root)
	f.aws(root, env)
	f.Folders = Folders(root)
	f.Vultr = env("VULTR_API_KEY") != ""
	for path, there := range map[string]*bool{"/etc/burst/vultr.key": &f.APIKey, "/etc/burst/munge.key": &f.MungeKey} {
		_, err := os.Stat(filepath.Join(root, path))
		*there = err == nil
	}
	return f
}

func (f *Found) slurm(root, named string) {
	paths := slurmConfs
	if named != "" {
		paths = append([]string{named}, paths...)
	}
	for _, path := range paths {
		site, err := conf.Read(filepath.Join(root, path))
		if err != nil {
			continue
		}
		f.SlurmConf, f.Usual = path, path == slurmConfs[0]
		f.Cluster, f.SlurmUser = site.Get("ClusterName"), site.Get("SlurmUser")
		f.Ctlds = site.Controllers()
		for _, l := range site.Nodes {
			if names, err := hostlist.Expand(l.Name); err == nil && !strings.EqualFold(l.Attrs["state"], "CLOUD") {
				f.Nodes = append(f.Nodes, names...)
			}
		}
		for _, l := range site.Partitions {
			if f.Taken = append(f.Taken, l.Name); strings.EqualFold(l.Attrs["nodes"], "ALL") {
				f.All = append(f.All, l.Name)
			}
		}
		return
	}
}

// aws looks for a profile and a region as AWS's own programs do: in the environment, then in the shared file.
func (f *Found) aws(root string, env func(string) string) {
	f.Profile = env("AWS_PROFILE")
	f.Region = first(env("AWS_REGION"), env("AWS_DEFAULT_REGION"))
	path := env("AWS_CONFIG_FILE")
	if path == "" && env("HOME") != "" {
		path = filepath.Join(env("HOME"), ".aws/config")
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	f.AWS = f.Profile != "" || f.Region != "" || env("AWS_ACCESS_KEY_ID") != "" || path != "" && err == nil
	if f.Region != "" || err != nil {
		return
	}
	section, want := "", first(f.Profile, "default")
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "["); is {
			section = strings.TrimSpace(strings.TrimPrefix(strings.TrimSuffix(name, "]"), "profile "))
		}
		if key, value, is := strings.Cut(line, "="); is && section == want && strings.TrimSpace(key) == "region" {
			f.Region = strings.TrimSpace(value)
			return
		}
	}
}

func first(words ...string) string {
	i := slices.IndexFunc(words, func(w string) bool { return w != "" })
	if i < 0 {
		return ""
	}
	return words[i]
}

// Said is what was found, in words, a line each.
func (f Found) Said() []string {
	var all []string
	switch {
	case f.SlurmConf != "":
		line := f.SlurmConf
		if f.Cluster != "" {
			line += ": cluster " + f.Cluster
		}
		if len(f.Nodes) > 0 {
			line += ", nodes " + hostlist.Fold(f.Nodes)
		}
		if len(f.Taken) > 0 {
			line += ", partitions " + strings.Join(f.Taken, ",")
		}
		all = append(all, line)
		if len(f.All) > 0 {
			all = append(all, "Nodes=ALL in "+strings.Join(f.All, ",")+": it would hold the cloud's nodes too, and its jobs start paid ones; burst genconf --diff lists the site's own there")
		}
	default:
		all = append(all, "no slurm.conf that can be read: is this the host of slurmctld?")
	}
	if f.Slurm != (conf.Release{}) {
		all = append(all, "slurmctld "+f.Slurm.String())
	}
	if f.AWS {
		all = append(all, strings.TrimSpace("AWS's settings: profile "+first(f.Profile, "default")+" "+f.Region))
	}
	if f.Vultr {
		all = append(all, "VULTR_API_KEY, a key of Vultr's")
	}
	return all
}
