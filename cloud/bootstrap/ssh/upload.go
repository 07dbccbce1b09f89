package ssh

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/pkg/sftp"
)

// An upload may take uploadBase, and a second more for each uploadPace bytes.
const (
	uploadBase = time.Minute
	uploadPace = 64 << 10
)

// archs are uname's names for the architectures that we know.
var archs = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

// files are all that the run needs in its folder.
func (w Work) files(uname string) ([]File, error) {
	all := []File{{Name: "host.sh", Mode: 0o700, Data: []byte(hostScript)}, {Name: "script", Mode: 0o700, Data: w.Script}}
	if w.Files == nil {
		return all, nil
	}
	arch := archs[uname]
	if arch == "" {
		return nil, final{fmt.Errorf("its processor is %q: Burst knows x86_64 and aarch64", oneLine(uname))}
	}
	more, err := w.Files(arch)
	for _, f := range more {
		if !fileNames().MatchString(f.Name) || f.To != "" && (path.Clean(f.To) != f.To || !path.IsAbs(f.To) || strings.ContainsAny(f.To, " '\"\\$`&;|<>()*?[#~\n\t")) {
			return nil, final{fmt.Errorf("%q, to be put at %q, is no name of a file for hosts", f.Name, f.To)}
		}
	}
	return append(all, more...), err
}

// start uploads what the host lacks, and begins the run.
func (r *Runner) start(ctx context.Context, c *connection, h Host, w Work) error {
	leave, err := enter(ctx, r.hosts)
	if err != nil {
		return err
	}
	defer leave()
	look, err := c.verb(ctx, h, "state", "0")
	if err != nil || look.state != "none" && look.state != "lost" {
		return err // another connection of ours has begun it
	}
	words := []string{"start", fmt.Sprintf("%.0f", max(1, w.Limit.Seconds()))}
	if look.state == "none" {
		if err := r.step("ssh upload"); err != nil {
			return err
		}
		files, err := w.files(look.arch)
		if err != nil {
			return err
		}
		placed, err := r.upload(ctx, c, h, files, look.free)
		if err != nil {
			return err
		}
		words = append(words, placed...)
	}
	if err := r.step("ssh start"); err != nil {
		return err
	}
	if _, err := c.verb(ctx, h, words...); err != nil {
		return err
	}
	return r.step("ssh started")
}

// upload sends what of the files is not there, and returns where start is to put each.
func (r *Runner) upload(ctx context.Context, c *connection, h Host, files []File, free int64) (placed []string, err error) {
	size := 0
	words := []string{"prepare"}
	for _, f := range files {
		size += len(f.Data)
		words = append(words, f.Name)
	}
	limit := uploadBase + time.Duration(size/uploadPace)*time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("uploading %d KiB took longer than %s", size>>10, limit))
	defer cancel()
	have, err := c.verb(ctx, h, words...)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.close) // SFTP calls have no context
	defer stop()
	var to *sftp.Client
	for _, f := range files {
		sum := sha256.Sum256(f.Data)
		digest := hex.EncodeToString(sum[:])
		placed = append(placed, f.Name, digest, fmt.Sprintf("%04o", f.Mode.Perm()), cmp.Or(f.To, "-"))
		if have.files[f.Name] == digest {
			continue
		}
		if to == nil {
			if to, err = sftp.NewClient(c.Client, sftp.UseConcurrentWrites(true)); err != nil {
				return nil, cause(ctx, sftpError("SFTP, which sshd_config's Subsystem offers", err, free))
			}
			defer to.Close()
		}
		if err := put(to, path.Join(place, h.Instance, f.Name), f.Data); err != nil {
			return nil, cause(ctx, sftpError("uploading "+f.Name, err, free))
		}
		r.cfg.Log.Debug("uploaded", "node", h.Node, "file", f.Name, "bytes", len(f.Data))
	}
	return placed, nil
}

// put writes a file whole or not at all.
func put(to *sftp.Client, name string, data []byte) error {
	f, err := to.Create(name + ".new")
	if err != nil {
		return err
	}
	err = f.Chmod(0o600)
	if err == nil {
		_, err = f.ReadFromWithConcurrency(bytes.NewReader(data), 0)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = to.Remove(name + ".new") // it may fill the disk
		return err
	}
	return to.PosixRename(name+".new", name)
}

// sftpError says of what the host refuses that it does; a lost connection is another thing.
func sftpError(what string, err error, free int64) error {
	var status *sftp.StatusError
	if !errors.As(err, &status) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return refused{fmt.Errorf("%s fails (%w); its disk has %d KiB free", what, err, free)}
}
