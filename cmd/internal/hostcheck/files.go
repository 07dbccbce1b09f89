package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/slurm/conf"
)

// secrets are what burst.toml need not hold, and not show if it does: a user and password in an
// address, a key of AWS's, a private key.
var secrets = regexp.MustCompile(`(?m)^[^#\n]*(://[^/\s:@"']+:[^@/\s"']+@|\bA(KIA|SIA)[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY)`)

// config looks at who may read and change burst.toml.
func (h *Host) config(_ context.Context, s Site) []conf.Finding {
	f := ok("burst.toml", s.Path, "SlurmUser and burstd may read it, and nobody else change it.")
	info, err := os.Stat(h.at(s.Path))
	if err != nil {
		return s.unseen(f, err, "burst init writes one.")
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	for _, u := range []User{s.SlurmUser, s.Burstd} {
		if err := u.Opens(h.Root, s.Path, 0o4); err != nil {
			return s.unseen(f, err, fmt.Sprintf("slurmctld's programs and burstd must read it: run \"chgrp %s %s; chmod 0640 %[2]s\", and have all pass its folders.", u.Name, s.Path))
		}
	}
	switch {
	case info.Mode()&0o022 != 0:
		return but(f, conf.Wrong, "Its mode is %04o: others may change what root runs on nodes. Run chmod go-w on it.", info.Mode().Perm())
	case owner != 0 && owner != s.Burstd.UID && owner != s.SlurmUser.UID && owner != os.Geteuid():
		return but(f, conf.Wrong, "It is uid %d's, who may change what root runs on nodes: run chown root on it.", owner)
	}
	if text, err := os.ReadFile(h.at(s.Path)); err == nil && info.Mode()&0o004 != 0 && secrets.Match(text) {
		return but(f, conf.Wrong, "It holds a password or a key, and everybody may read it: run \"chgrp %s %s; chmod 0640 %[2]s\".", s.SlurmUser.Name, s.Path)
	}
	return append([]conf.Finding{f}, h.elsewhere(s)...)
}

// elsewhere warns of a burst.toml that slurmctld's programs do not read.
func (h *Host) elsewhere(s Site) []conf.Finding {
	if filepath.Clean(s.Path) == endpoint.DefaultPath {
		return nil
	}
	if theirs, err := endpoint.Load(h.at(endpoint.DefaultPath)); theirs.Socket == s.Endpoint.Socket && theirs.Spool == s.Endpoint.Spool && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return nil
	}
	return but(ok("burst.toml", s.Path, ""), conf.Advice, "slurmctld gives the programs that it starts no environment: they read %s, and not this file, and look for burstd at another socket. "+
		"Link that to this, unless scripts of yours set BURST_CONFIG for them.", endpoint.DefaultPath)
}

// state looks at the folder of the journal.
func (h *Host) state(_ context.Context, s Site) []conf.Finding {
	path := s.Endpoint.State
	f := ok("state", path, "burstd may write there, and nobody else.")
	info, err := os.Stat(h.at(path))
	switch {
	case errors.Is(err, fs.ErrNotExist) && path == endpoint.Default().State:
		f.Why = "It is not there yet: burstd.service makes it."
		return []conf.Finding{f}
	case errors.Is(err, fs.ErrNotExist):
		return but(f, conf.Missing, "burstd does not make it: run \"install -d -m 0750 -o %s %s\", and name it in ReadWritePaths (systemctl edit burstd).", s.Burstd.Name, path)
	case err != nil:
		return s.unseen(f, err, "look at its folders.")
	case !info.IsDir():
		return but(f, conf.Wrong, "It is no folder: name one as state under [daemon].")
	case info.Mode()&0o002 != 0:
		return but(f, conf.Wrong, "Its mode is %04o: everybody may take burstd's journal away. Run chmod 0750 on it.", info.Mode().Perm())
	}
	if err := s.Burstd.Opens(h.Root, path, 0o7); err != nil {
		return s.unseen(f, err, fmt.Sprintf("burstd keeps its journal there: run chown -R %s on it.", s.Burstd.Name))
	}
	// What another user's burstd has made: one as root, before it was SlurmUser's.
	for _, name := range []string{"burst.db", "burst.db-wal", "burst.db-shm", "burstd.lock", "cluster-id"} {
		err := s.Burstd.Opens(h.Root, filepath.Join(path, name), 0o6)
		var closed *Closed
		if errors.As(err, &closed) {
			return but(f, conf.Wrong, "%v: another user's burstd has made it. With burstd stopped run \"chown -R %s %s\".", err, s.Burstd.Name, path)
		}
	}
	return []conf.Finding{f}
}

// spool looks at the folder of the orders that come while burstd is away.
func (h *Host) spool(_ context.Context, s Site) []conf.Finding {
	path := s.Endpoint.Spool
	f := ok("spool", path, "SlurmUser may leave orders there, and nobody else.")
	boots := ", and write its owner into the line of /etc/tmpfiles.d/burst.conf, for the next boots."
	make := fmt.Sprintf("\"install -d -m 0750 -o %s %s\"", s.SlurmUser.Name, path)
	if path == endpoint.Default().Spool && s.SlurmUser.Name == endpoint.Default().SlurmUser {
		make, boots = "\"systemd-tmpfiles --create burst.conf\"", "."
	}
	mend := fmt.Sprintf("run \"chown %s: %s; chmod 0750 %[2]s\"%s", s.SlurmUser.Name, path, boots)
	info, err := os.Stat(h.at(path))
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.SlurmUser.Opens(h.Root, filepath.Dir(path), 0o3) == nil:
		f.Why = "It is not there yet: the first order makes it."
		return []conf.Finding{f}
	case errors.Is(err, fs.ErrNotExist):
		return but(f, conf.Missing, "Orders that come while burstd is away would be lost: run %s%s", make, boots)
	case err != nil:
		return s.unseen(f, err, "look at its folders.")
	case !info.IsDir():
		return but(f, conf.Wrong, "It is no folder: name one as spool under [daemon].")
	case info.Mode()&0o002 != 0:
		return but(f, conf.Wrong, "Its mode is %04o: everybody may give burstd orders by it. Run chmod 0750 on it.", info.Mode().Perm())
	}
	for _, u := range []User{s.SlurmUser, s.Burstd} {
		if err := u.Opens(h.Root, path, 0o7); err != nil {
			return s.unseen(f, err, "slurmctld's programs leave orders there, and burstd takes them: "+mend)
		}
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != 0 && owner != s.SlurmUser.UID && owner != s.Burstd.UID {
		return but(f, conf.Wrong, "It is uid %d's, who may give burstd orders by it, and SlurmUser is %s: %s", owner, s.SlurmUser.Name, mend)
	}
	if file, user := h.tmpfiles(path); user != "" && user != s.SlurmUser.Name && user != strconv.Itoa(s.SlurmUser.UID) {
		mend := "write %[3]s into that line."
		if file != siteTmpfiles {
			mend = "copy that line to " + siteTmpfiles + ", and write %[3]s there."
		}
		return but(f, conf.Wrong, "At each boot %s gives it to %s, and SlurmUser is %s: "+mend, file, user, s.SlurmUser.Name)
	}
	return []conf.Finding{f}
}

// siteTmpfiles counts in place of the package's.
const siteTmpfiles = "/etc/tmpfiles.d/burst.conf"

// tmpfiles is the file by which systemd makes the folder at each boot, and whose it is then; "" where it stays whose it is.
func (h *Host) tmpfiles(path string) (file, user string) {
	for _, file := range []string{siteTmpfiles, "/usr/lib/tmpfiles.d/burst.conf"} {
		text, err := os.ReadFile(h.at(file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for line := range strings.Lines(string(text)) {
			w := strings.Fields(line)
			switch {
			case len(w) < 4 || !strings.HasPrefix(w[0], "d") || w[1] != path:
				continue
			case w[3] == "-":
				return file, "root"
			case strings.HasPrefix(w[3], ":"): // only of one that it makes
				return file, ""
			}
			return file, w[3]
		}
		break // the second one does not count where there is the first
	}
	return "", ""
}
