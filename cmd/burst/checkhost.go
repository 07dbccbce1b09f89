package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/hostcheck"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/cmd/internal/passwd"
	"github.com/burst-hpc/burst/slurm/conf"
)

// looked is what was found on this host.
type looked struct {
	host     []conf.Finding
	programs []conf.Finding // that slurmctld starts
	logins   []conf.Finding // of what burstd needs to log in to nodes
}

// lookAt looks at this host for what burst.toml and the site's Slurm make of it.
func lookAt(ctx context.Context, cfg *config.Config, in conf.Input, both sites) looked {
	h := hostcheck.New(cfg.Endpoint)
	h.Agent = nodeapi.Agent
	within, cancel := context.WithTimeout(ctx, hostcheck.Patience)
	unit := h.Unit(within)
	who := burstdUser(within, cfg, unit)
	found, nobody := passwd.ByName(within, cfg.Endpoint.SlurmUser)
	slurm := readerOf(found, nobody)
	cancel()
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		path = cfg.Path
	}
	s := hostcheck.Site{Path: path, Endpoint: cfg.Endpoint, Settings: both.running, Running: both.said, Away: both.askErr,
		SlurmUser: hostcheck.User{Name: slurm.name, UID: slurm.uid, Groups: slurm.groups},
		Burstd:    hostcheck.User{Name: who.name, UID: who.uid, Groups: who.groups}}
	if both.askErr != nil {
		s.Settings = both.file
	}
	for _, p := range cfg.Providers {
		s.Local = s.Local || p.Kind == "local"
		s.Clouds = s.Clouds || p.Kind != "local"
		switch p.Kind {
		case "vultr":
			s.Journals = append(s.Journals, p.Vultr.Dir)
		case "local":
			s.Folders = append(s.Folders, p.Local.Dir)
		}
	}
	s.Keyless = keyless(cfg)
	for feature, arch := range map[string]string{"x86_64": "amd64", "arm64": "arm64"} {
		if slices.ContainsFunc(in.Pools, func(p conf.Pool) bool { return slices.Contains(p.Features, feature) }) {
			s.Archs = append(s.Archs, arch)
		}
	}
	l := looked{programs: checkPrograms(ctx, h, s.SlurmUser, paths(in.Programs, both.chained(in.Programs)))}
	if nobody != nil {
		l.host = []conf.Finding{{Level: conf.Wrong, Key: "user", Have: cfg.Endpoint.SlurmUser, Why: fmt.Sprintf("This host does not know the user as whom slurmctld runs: %v. "+
			"Write SlurmUser of slurm.conf as user under [slurm] in burst.toml.", nobody)}}
	}
	l.host = slices.Concat(l.host, h.Check(ctx, s), h.Together(ctx, []hostcheck.Look{{Key: "files", Look: func(context.Context) []conf.Finding { return checkFiles(cfg, who) }}}))
	l.logins = h.Together(ctx, []hostcheck.Look{{Key: "ssh", Look: func(context.Context) []conf.Finding { return checkLogins(cfg, who) }}})
	return l
}

// keyless are pools at a cloud of which burst.toml does not say that their nodes have slurm.key: by an image with keys of the
// site's, by a command that names it, or by user data of the site's own.
func keyless(cfg *config.Config) (names []string) {
	for _, p := range cfg.Sources() {
		named := slices.ContainsFunc(slices.Concat(p.Boot.Setup, p.Boot.Users.Commands), func(command string) bool { return strings.Contains(command, "slurm.key") })
		if !named && p.Boot.MungeKey != "" && p.Boot.MungeKey != "image" && !slices.Contains(names, p.Power.Name) {
			names = append(names, p.Power.Name)
		}
	}
	return names
}

// paths are what slurmctld starts.
func paths(p conf.Programs, chained bool) []string {
	all := []string{p.Resume, p.Suspend, p.ResumeFail, p.Gate}
	if chained {
		all = append(all, p.Chain)
	}
	return all
}

// checkPrograms finds programs that slurmctld, as who, would refuse to start, or that are of another version.
func checkPrograms(ctx context.Context, h *hostcheck.Host, who hostcheck.User, paths []string) []conf.Finding {
	const chain = 4 // the script of the site's own, which has no version
	looks := make([]hostcheck.Look, len(paths))
	for i, path := range paths {
		looks[i] = hostcheck.Look{Key: filepath.Base(path), Look: func(ctx context.Context) []conf.Finding {
			f := conf.Finding{Level: conf.OK, Key: filepath.Base(path), Have: path, Why: "slurmctld may start it."}
			info, err := os.Stat(path)
			switch {
			case err != nil && i == chain:
				f.Level, f.Why = conf.Missing, fmt.Sprintf("%v: write it with \"burst genconf --chain -o %s\".", err, path)
			case err != nil:
				f.Level, f.Why = conf.Missing, fmt.Sprintf("%v: install it, or name its folder with --programs.", err)
			case info.IsDir() || info.Mode()&0o111 == 0:
				f.Level, f.Why = conf.Wrong, fmt.Sprintf("slurmctld cannot start it: its mode is %v; run chmod 755 on it.", info.Mode())
			case info.Mode()&0o022 != 0:
				f.Level, f.Why = conf.Wrong, fmt.Sprintf("slurmctld does not start what others may write: its mode is %v; run chmod 755 on it.", info.Mode())
			case i == chain:
				f = h.Chain(path, paths[chain-1], who) // the gate is before it
			default:
				f = h.Program(ctx, path, who)
			}
			return []conf.Finding{f}
		}}
	}
	return h.Together(ctx, looks)
}

// checkFiles looks at files that burst.toml names for burstd, beside those of SSH.
func checkFiles(cfg *config.Config, who reader) []conf.Finding {
	var all []conf.Finding
	for _, p := range cfg.Providers {
		if path := p.Vultr.KeyFile; p.Kind == "vultr" && path != "" {
			f := conf.Finding{Level: conf.OK, Key: "api_key_file", Have: path, Why: "burstd may read it, and not everybody."}
			info, err := os.Stat(path)
			if err == nil && info.Mode()&0o007 != 0 {
				err = fmt.Errorf("its mode is %04o: everybody on this host may have it; run chmod 0400 on it", info.Mode().Perm())
			} else if err == nil {
				err = who.opens(path, 0o4)
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: write the API key there, on one line, with \"install -m 0400 -o %s /dev/stdin %s\"", err, who.name, path)
			}
			all = append(append(all, who.found(f, err)), unseen("api_key_file", path)...)
		}
		if path := p.PriceTable; path != "" {
			f := conf.Finding{Level: conf.OK, Key: "price_table", Have: path, Why: "burstd may read it."}
			all = append(append(all, who.found(f, who.opens(path, 0o4))), unseen("price_table", path)...)
		}
	}
	return all
}
