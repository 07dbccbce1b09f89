package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm/conf"
)

// oldest is the first Slurm whose partitions have power saving of their own.
var oldest = release{22, 5}

// release is the part of a version of Slurm that says what understands what.
type release struct{ year, month int }

func (r release) before(o release) bool {
	return r.year < o.year || r.year == o.year && r.month < o.month
}

func (r release) String() string { return fmt.Sprintf("%02d.%02d", r.year, r.month) }

var number = regexp.MustCompile(`(\d\d)\.(\d\d)\.\d+\S*`)

// releaseOf reads "22.05.8", also in what a command says of itself.
func releaseOf(text string) (r release, whole string, ok bool) {
	whole = number.FindString(text)
	_, err := fmt.Sscanf(whole, "%d.%d", &r.year, &r.month)
	return r, whole, err == nil
}

// slurmctld looks at the controller's version, authentication, and whether it is the one of this host.
func (h *Host) slurmctld(_ context.Context, s Site) []conf.Finding {
	f := ok("slurmctld", "", "It answers, and Burst knows this version.")
	if s.Running == nil {
		return but(f, conf.Unknown, "%v: what it runs with is not compared. Start it, and check again.", s.Away)
	}
	r, whole, known := releaseOf(s.Running["SLURM_VERSION"])
	f.Have = whole
	all := []conf.Finding{f}
	switch {
	case !known:
		all = but(f, conf.Unknown, "It does not say its version, as SLURM_VERSION.")
	case r.before(oldest):
		all = but(f, conf.Wrong, "Burst needs Slurm %s or later: before, partitions have no power saving of their own.", oldest)
	}
	all = append(all, auth(s)...)
	return append(all, h.controllers(s)...)
}

func authType(s Site) string {
	if t := s.Settings.Get("AuthType"); t != "" {
		return t
	}
	return "auth/munge" // Slurm's default
}

func auth(s Site) []conf.Finding {
	f := ok("AuthType", authType(s), "As Burst's nodes and burst-srun have it.")
	if f.Have == "auth/munge" {
		return []conf.Finding{f}
	}
	munge := "burst-agent, nodes that boot, and burst-srun are known by MUNGE, whatever Slurm uses: run munged here and on the nodes too, with one key."
	switch {
	case f.Have == "auth/slurm" && len(s.Keyless) > 0:
		return but(f, conf.Wrong, "Nothing in burst.toml says that the nodes of pool %s have Slurm's own key, /etc/slurm/slurm.key, as here: without it their slurmd cannot register, and each boot is "+
			"paid for and given up. Have a line of the pool's setup put slurm.key there, which runs before slurmd starts, or put it on the image and write munge_key = \"image\". %s", strings.Join(s.Keyless, ", "), munge)
	case f.Have == "auth/slurm" && s.Clouds:
		return but(f, conf.Advice, "The image of a cloud's nodes must have Slurm's own key, /etc/slurm/slurm.key, as here. %s", munge)
	}
	return but(f, conf.Advice, "%s", munge)
}

// oneOnly is where burstd may be started, of several hosts: "" of one alone.
func (s Site) oneOnly() string {
	hosts := s.Settings.Controllers()
	if len(hosts) < 2 {
		return ""
	}
	return fmt.Sprintf("Of the hosts %s only one may run it, that which has its journal in %s (%s, unless you have moved it): a second burstd, with a journal and a cluster id "+
		"of its own, launches again what the first has launched", strings.Join(hosts, ", "), s.Endpoint.State, hosts[0])
}

// controllers warns of a check on a host where slurmctld is not, and of backups.
func (h *Host) controllers(s Site) []conf.Finding {
	name, err := h.Name()
	if err != nil {
		return nil
	}
	short, _, _ := strings.Cut(name, ".")
	hosts := s.Settings.Controllers()
	f := ok("SlurmctldHost", strings.Join(hosts, ","), "This host.")
	switch {
	case len(hosts) == 0:
		return nil
	case !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, short) }):
		return but(f, conf.Advice, "This host is %s: burstd runs where slurmctld does, and what is said below of files, sockets and users is of this host. Run burst check there.", short)
	case len(hosts) > 1:
		return but(f, conf.Advice, "burstd runs on one host: when another of these takes over, burst-resume there finds no burstd, and its orders wait in that host's spool. "+
			"Have what moves slurmctld move burstd and its state folder too, and end it here before it starts there.")
	}
	return []conf.Finding{f}
}

// commands compares the version of scontrol with slurmctld's.
func (h *Host) commands(ctx context.Context, s Site) []conf.Finding {
	f := ok("scontrol", "", "slurmctld understands it.")
	said, err := h.Run(ctx, "scontrol", "--version")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return but(f, conf.Wrong, "%v: burstd asks Slurm by it and squeue; name their folder as bin under [slurm] in burst.toml.", err)
	case err != nil && s.Away != nil:
		return but(f, conf.Unknown, "\"scontrol --version\" fails, too: see what is said of slurmctld.")
	case err != nil:
		return but(f, conf.Unknown, "\"scontrol --version\" fails: %v.", err)
	}
	mine, whole, known := releaseOf(said)
	theirs, running, told := releaseOf(s.Running["SLURM_VERSION"])
	f.Have = whole
	switch {
	case !known:
		return but(f, conf.Unknown, "scontrol --version says no version, but %.80q.", strings.TrimSpace(said))
	case told && theirs.before(mine):
		return but(f, conf.Wrong, "It is newer than slurmctld, %s, which does not understand it: bin under [slurm] in burst.toml names the folder of slurmctld's own, or restart slurmctld after an upgrade.", running)
	case told && mine.before(theirs):
		return but(f, conf.Advice, "slurmctld is %s: it takes commands of two releases before, but nodes and commands should follow. bin under [slurm] in burst.toml names another folder.", running)
	case !told:
		f.Why = "slurmctld was not asked for its own version."
	}
	return []conf.Finding{f}
}

// jsonC looks for the plugin by which slurmctld tells ResumeProgram the jobs that nodes are raised for.
func (h *Host) jsonC(_ context.Context, s Site) []conf.Finding {
	const plugin = "serializer_json.so"
	dirs := s.Running["PluginDir"]
	f := ok("json-c", "", "slurmctld tells for which jobs it powers nodes up.")
	if dirs == "" {
		return nil // nobody has said where plugins are
	}
	for _, dir := range strings.Split(dirs, ":") {
		info, err := os.Stat(h.at(filepath.Join(dir, plugin)))
		if err == nil && info.Mode().IsRegular() {
			f.Have = filepath.Join(dir, plugin)
			return []conf.Finding{f}
		}
	}
	if _, err := os.Stat(h.at(strings.Split(dirs, ":")[0])); err != nil {
		return but(f, conf.Unknown, "slurmctld's plugins cannot be looked at: %v.", err)
	}
	return but(f, conf.Advice, "%s has no %s: slurmctld was built without json-c and does not tell for which job it powers a node up. Burst then does not know which "+
		"nodes belong together: those of one job may be of several types and zones. Install json-c (libjson-c-dev, json-c-devel), and build Slurm again.", dirs, plugin)
}

// munge has a credential made and opened.
func (h *Host) munge(ctx context.Context, s Site) []conf.Finding {
	socket := ""
	for word := range strings.SplitSeq(s.Settings.Get("AuthInfo"), ",") {
		if path, named := strings.CutPrefix(strings.TrimSpace(word), "socket="); named {
			socket = path
		}
	}
	f := ok("MUNGE", socket, "munged makes credentials and opens them.")
	err := h.Munge(ctx, socket)
	switch {
	case err == nil:
		return []conf.Finding{f}
	case authType(s) != "auth/munge" && s.Endpoint.Listen == "":
		return but(f, conf.Advice, "%v. Slurm does without it; nodes of a cloud and burst-srun do not.", err)
	}
	return but(f, conf.Wrong, "%v: see \"systemctl status munge\", and that all may pass into the folder of its socket.", err)
}

// clock asks the kernel whether something keeps its time right. How far it is off, clouds say.
func (h *Host) clock(context.Context, Site) []conf.Finding {
	f := ok("clock", "", "It is kept right by NTP or its like.")
	switch right, err := h.Clock(); {
	case err != nil:
		return but(f, conf.Unknown, "The kernel does not say whether the clock is synchronised: %v. See \"chronyc tracking\" or \"timedatectl\".", err)
	case !right:
		return but(f, conf.Advice, "Nothing keeps the kernel's clock right: run chrony or systemd-timesyncd, unless what runs this machine does it from outside. "+
			"MUNGE and clouds refuse what is off by five minutes, and hours that are paid for end by the cloud's clock.")
	}
	return []conf.Finding{f}
}
