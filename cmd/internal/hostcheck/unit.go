package hostcheck

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/conf"
)

const service = "burstd.service"

// Unit is what systemd says of burstd's unit, by property; nil: there is no systemd, or no unit.
func (h *Host) Unit(ctx context.Context) map[string]string {
	text, err := h.Run(ctx, "systemctl", "show", service, "--property=LoadState,UnitFileState,User,ProtectSystem,ReadWritePaths,NeedDaemonReload")
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, has := strings.Cut(strings.TrimSpace(line), "="); has {
			all[key] = value
		}
	}
	return all
}

// unit compares burstd's unit with burst.toml.
func (h *Host) unit(ctx context.Context, s Site) []conf.Finding {
	f := ok(service, "", "It runs burstd as it must be, and lets it write where it must.")
	u := h.Unit(ctx)
	switch {
	case u == nil:
		return but(f, conf.Unknown, "systemd cannot be asked here: see that burstd runs as %s, and is started again when it ends.", s.Burstd.Name)
	case u["LoadState"] == "not-found" && h.running(ctx, s):
		return but(f, conf.Advice, "burstd runs, and there is no such unit: see that something starts it again when it ends, and at the next boot.")
	case u["LoadState"] == "not-found":
		return but(f, conf.Missing, "There is no such unit: install the package burst.")
	case u["LoadState"] == "masked":
		return but(f, conf.Wrong, "It is masked: systemctl unmask burstd.")
	case u["NeedDaemonReload"] == "yes":
		return but(f, conf.Wrong, "The unit has changed since systemd has read it: systemctl daemon-reload, and systemctl restart burstd.")
	}
	user := u["User"]
	if user == "" {
		user = "root"
	}
	f.Have = "User=" + user
	switch {
	case s.Local && user != "root":
		return but(f, conf.Wrong, "The local provider's instances run jobs of all users, so burstd must be root: copy /usr/share/doc/burst/burstd-local.conf to "+
			"/etc/systemd/system/burstd.service.d/local.conf, and run systemctl daemon-reload. docs/local.md says more.")
	case user != "root" && user != s.SlurmUser.Name:
		return but(f, conf.Wrong, "SlurmUser is %s, and from nobody else Slurm takes what burstd asks: write User=%[1]s and its Group= into a drop-in (systemctl edit burstd).", s.SlurmUser.Name)
	}
	if u["ProtectSystem"] == "strict" {
		may := []string{"/run/burst", "/var/lib/burst"} // RuntimeDirectory, StateDirectory
		for _, path := range strings.Fields(u["ReadWritePaths"]) {
			may = append(may, strings.TrimLeft(path, "-+"))
		}
		for _, path := range slices.Concat([]string{s.Endpoint.State, s.Endpoint.Spool, filepath.Dir(s.Endpoint.Socket)}, s.Journals, s.Folders) {
			if !slices.ContainsFunc(may, func(dir string) bool { return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }) {
				return but(f, conf.Wrong, "It does not let burstd write to %s, which burst.toml names: write ReadWritePaths=%[1]s into a drop-in (systemctl edit burstd).", path)
			}
		}
	}
	if only := s.oneOnly(); u["UnitFileState"] == "disabled" && only != "" {
		return but(f, conf.Advice, "It is not started at the next boot of this host. %s.", only)
	}
	if u["UnitFileState"] == "disabled" {
		return but(f, conf.Advice, "It is not started at the next boot: systemctl enable burstd. While it is down no instance is watched.")
	}
	return []conf.Finding{f}
}
