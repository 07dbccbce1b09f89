package hostcheck

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/conf"
)

// longest is what the kernel takes of a socket's path, in bytes.
const longest = 107

// answer is how long a burstd may take that is not stuck.
const answer = 3 * time.Second

const start = "systemctl enable --now burstd"

// socket asks burstd, and looks who may reach it.
func (h *Host) socket(ctx context.Context, s Site) []conf.Finding {
	path := s.Endpoint.Socket
	f := ok("socket", path, "burstd answers, in this version.")
	if len(path) > longest {
		return but(f, conf.Wrong, "The path has %d bytes, and the kernel takes %d: name a shorter one as socket under [daemon].", len(path), longest)
	}
	info, err := os.Lstat(h.at(path))
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.oneOnly() != "":
		return but(f, conf.Advice, "burstd does not run here. %s.", s.oneOnly())
	case errors.Is(err, fs.ErrNotExist):
		return but(f, conf.Advice, "burstd does not run: when nothing above is wrong, %s.", start)
	case err != nil:
		return s.unseen(f, err, "its folders must let all pass.")
	case info.Mode().Type() != fs.ModeSocket:
		return but(f, conf.Wrong, "Something else is there, with mode %v, and burstd does not remove it: do so, or name another path as socket under [daemon].", info.Mode())
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != 0 && owner != s.Burstd.UID {
		return but(f, conf.Wrong, "It is uid %d's, and burstd runs as %s: whoever listens there gets Slurm's orders. End that, and restart burstd.", owner, s.Burstd.Name)
	}
	if err := s.SlurmUser.Opens(h.Root, filepath.Dir(path), 0o1); err != nil {
		return s.unseen(f, err, "slurmctld's programs do not reach burstd. Run chmod 0755 on it.")
	}
	if err := s.SlurmUser.Opens(h.Root, path, 0o6); err != nil {
		return s.unseen(f, err, "slurmctld's programs do not reach burstd. Restart burstd, which opens its socket to all and knows who asks.")
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	version, err := h.Status(ctx, h.at(path))
	var refused *api.Error
	switch {
	case err == nil && version != h.Version:
		return but(f, conf.Wrong, "burstd runs in version %s, and this is burst %s: run \"systemctl restart burstd\", or install both of one package.", version, h.Version)
	case err == nil:
		return []conf.Finding{f}
	case errors.Is(err, syscall.ECONNREFUSED) && s.oneOnly() != "":
		return but(f, conf.Advice, "burstd does not run here, and has not ended well: \"journalctl -u burstd\" says why. %s.", s.oneOnly())
	case errors.Is(err, syscall.ECONNREFUSED):
		return but(f, conf.Advice, "burstd does not run, and has not ended well: \"journalctl -u burstd\" says why, \"%s\" starts it.", start)
	case errors.As(err, &refused):
		return but(f, conf.Wrong, "burstd answers with an error: %v. See \"journalctl -u burstd\".", err)
	case errors.Is(err, fs.ErrPermission):
		return but(f, conf.Unknown, "%v: run burst check as root.", err)
	}
	return but(f, conf.Wrong, "Somebody has opened it and does not answer as burstd does: %v. See \"journalctl -u burstd\" and \"ss -xlp\".", err)
}

// running says whether a burstd answers.
func (h *Host) running(ctx context.Context, s Site) bool {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	_, err := h.Status(ctx, h.at(s.Endpoint.Socket))
	return err == nil
}
