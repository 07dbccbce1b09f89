package hostcheck

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/burst-hpc/burst/slurm/conf"
)

// Program looks at one that slurmctld starts, as who: whether he may, others may not change it, and it is of
// this version.
func (h *Host) Program(ctx context.Context, path string, who User) conf.Finding {
	return h.program(ctx, path, Site{SlurmUser: who, Burstd: who})[0]
}

func (h *Host) program(ctx context.Context, path string, s Site) []conf.Finding {
	f := ok(filepath.Base(path), path, "slurmctld may start it.")
	if err := s.SlurmUser.Opens(h.Root, path, 0o5); err != nil {
		return s.unseen(f, err, "run chmod 755 on it.")
	}
	if folder := h.writable(path); folder != "" { // what others may replace we do not start, least of all as root
		return but(f, conf.Wrong, "Others may write to %s, and so put another program there: run chmod go-w on it.", folder)
	}
	if info, err := os.Stat(h.at(path)); err == nil && os.Geteuid() == 0 {
		if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != 0 { // nor as root what is another's
			return but(f, conf.Advice, "It is uid %d's, who may change what slurmctld starts, and so it is not asked for its version: run chown root on it.", owner)
		}
	}
	said, err := h.Run(ctx, h.at(path), "--version")
	if err != nil {
		return but(f, conf.Wrong, "It does not run: %v. Install it again.", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	if version, named := strings.CutPrefix(first, f.Key+" "); !named {
		return but(f, conf.Wrong, "It is not Burst's: to --version it says %.60q. Install Burst's there, or name another folder with --programs.", first)
	} else if version, _, _ = strings.Cut(version, " "); version != h.Version {
		return but(f, conf.Wrong, "It is of version %s, and burst of %s: install all of one version, the packages burst and burst-node together.", version, h.Version)
	}
	return []conf.Finding{f}
}

// then is the site's own program, in the script that calls the gate before it.
var then = regexp.MustCompile(`--then[ =]+"?'?([^\s"']+)`)

// Chain looks at the script that calls the gate and then the site's own PrologSlurmctld.
func (h *Host) Chain(path, gate string, who User) conf.Finding {
	f := ok(filepath.Base(path), path, "slurmctld may start it.")
	text, err := os.ReadFile(h.at(path))
	if err == nil {
		err = who.Opens(h.Root, path, 0o5)
	}
	if err != nil {
		return Site{SlurmUser: who, Burstd: who}.unseen(f, err, "run chmod 755 on it.")[0]
	}
	m := then.FindSubmatch(text)
	switch {
	case !bytes.Contains(text, []byte(gate)):
		return but(f, conf.Wrong, "It does not call %s: jobs start late, and again while an earlier attempt may still run. Its last line is \"exec %[1]s --then YOUR-PROGRAM\".", gate)[0]
	case m == nil:
		return f // it calls its own in another way
	}
	if err := who.Opens(h.Root, string(m[1]), 0o1); err != nil {
		return Site{SlurmUser: who, Burstd: who}.unseen(f, err, "it is called after the gate, and jobs are held when it cannot be: mend it, or take it out of the script.")[0]
	}
	return f
}

// writable is the program's folder, or one above it, that everybody may write to; "" if none.
// A folder in which only owners remove, as /tmp, holds what is ours.
func (h *Host) writable(path string) string {
	root := filepath.Clean(h.Root)
	for at := filepath.Dir(h.at(path)); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return "/" + relative(root, at)
		}
		if at == root || at == "/" || at == "." {
			return ""
		}
	}
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// agents looks at burst-agent for each architecture that nodes may have.
func (h *Host) agents(_ context.Context, s Site) []conf.Finding {
	if !s.Clouds || s.Endpoint.Listen == "" || h.Agent == nil {
		return nil
	}
	var all []conf.Finding
	for _, arch := range []string{"amd64", "arm64"} {
		if f, needed := h.agent(s, arch); needed {
			all = append(all, f...)
		}
	}
	return all
}

// agent looks at one; needed: there is something to say of it.
func (h *Host) agent(s Site, arch string) (all []conf.Finding, needed bool) {
	f := ok("burst-agent", arch, "Nodes fetch it.")
	path, err := h.Agent(arch)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !slices.Contains(s.Archs, arch) && arch != runtime.GOARCH:
		return nil, false
	case errors.Is(err, fs.ErrNotExist):
		return but(f, conf.Advice, "There is none for nodes of %s to fetch: the package burst has it (/usr/lib/burst/burst-agent-%[1]s), unless it is on their image. "+
			"Without it they hear of no eviction.", arch), true
	case err != nil:
		return s.unseen(f, err, "install Burst again."), true
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return s.unseen(f, err, "install Burst again."), true
	}
	program, err := elf.NewFile(bytes.NewReader(text))
	if err != nil || program.Machine != machines[arch] {
		return but(f, conf.Wrong, "%s is no program for %s: install Burst again.", path, arch), true
	}
	// One of another architecture does not run here; its version is among its data.
	if !bytes.Contains(text, []byte(h.Version)) {
		return but(f, conf.Wrong, "%s is not of version %s, as burst is: install all of one version, the packages burst and burst-node together.", path, h.Version), true
	}
	return []conf.Finding{f}, true
}
