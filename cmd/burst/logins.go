package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/hostcheck"
	"github.com/burst-hpc/burst/cmd/internal/passwd"
	"github.com/burst-hpc/burst/slurm/conf"
)

// checkLogins looks at what burstd, which runs as who, needs to set nodes up over SSH: a key
// of its own, and the MUNGE key that it sends.
func checkLogins(cfg *config.Config, who reader) []conf.Finding {
	auths, sent := map[ssh.Auth]bool{}, map[string]bool{}
	var all []conf.Finding
	for _, p := range cfg.Sources() {
		if p.SSH == nil {
			continue
		}
		if a := p.SSH.Auth; !auths[a] {
			auths[a] = true
			all = append(all, who.login(a)...)
		}
		if path := p.Boot.Sent(); path != "" && !sent[path] {
			sent[path] = true
			all = append(all, who.munge(path))
			all = append(all, unseen("munge_key", path)...)
		}
		if p.SSH.Public && p.Boot.Sent() != "" {
			all = append(all, conf.Finding{Level: conf.Advice, Key: "host_key", Have: "pin-public",
				Why: fmt.Sprintf("Whoever answers first at the public address of an instance of pool %s gets the cluster's MUNGE key: "+
					"an instance that proves who it is (host_key = \"user-data\" on Vultr, \"console\" on AWS), an image that has the key, or a VPC keeps it yours.", p.Power.Name)})
		}
	}
	return append(all, checkLoginKeys(cfg, who)...)
}

// reader is as whom burstd runs.
type reader struct {
	name   string
	uid    int
	groups []int
}

// burstdUser is whose burstd's socket is, or else as whom its unit runs it; where that is not to be had,
// root if its instances are processes here, and SlurmUser if not. Where nobody is known we are taken for him.
func burstdUser(ctx context.Context, cfg *config.Config, unit map[string]string) reader {
	name := cfg.Endpoint.SlurmUser
	switch {
	case unit["LoadState"] == "loaded":
		name = cmp.Or(unit["User"], "root")
	case slices.ContainsFunc(cfg.Providers, func(p config.Provider) bool { return p.Kind == "local" }):
		name = "root"
	}
	u, err := passwd.ByName(ctx, name)
	if info, serr := os.Stat(cfg.Endpoint.Socket); serr == nil {
		u, err = passwd.ByID(ctx, int(info.Sys().(*syscall.Stat_t).Uid))
	}
	return readerOf(u, err)
}

// readerOf is a user that was looked up, or we if there was none.
func readerOf(u *user.User, err error) reader {
	if err != nil {
		u, err = user.Current()
	}
	if err != nil {
		return reader{name: fmt.Sprintf("uid %d", os.Geteuid()), uid: os.Geteuid()}
	}
	r := reader{name: u.Username}
	r.uid, _ = strconv.Atoi(u.Uid) // a number on every Unix
	ids, _ := u.GroupIds()         // without them more is taken for closed
	for _, id := range ids {
		if n, err := strconv.Atoi(id); err == nil {
			r.groups = append(r.groups, n)
		}
	}
	return r
}

// login finds what keeps burstd from logging in.
func (r reader) login(a ssh.Auth) []conf.Finding {
	f := conf.Finding{Level: conf.OK, Key: "ssh.key", Have: a.KeyFile, Why: "burstd may log in with it."}
	if a.KeyFile == "" {
		f.Key, f.Have = "ssh.agent", a.Agent
	}
	err := a.CheckAs(r.uid)
	if err == nil && a.KeyFile != "" {
		err = r.opens(a.KeyFile, 0o4)
	}
	if err == nil && a.Agent != "" {
		err = r.asks(a.Agent)
	}
	all := []conf.Finding{r.found(f, err)}
	if a.KeyFile != "" {
		all = append(all, unseen("ssh.key", a.KeyFile)...)
	}
	if a.Agent != "" {
		all = append(all, unseen("ssh.agent", a.Agent)...)
	}
	return all
}

// munge finds what keeps burstd from sending the MUNGE key.
func (r reader) munge(path string) conf.Finding {
	f := conf.Finding{Level: conf.OK, Key: "munge_key", Have: path, Why: "burstd may read it."}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("it is no file, its mode is %v", info.Mode())
	case err == nil && info.Mode()&0o007 != 0:
		err = fmt.Errorf("its mode is %v: everybody on this host may have it, and with it be anybody on the cluster; run chmod 0400 on it", info.Mode())
	case err == nil:
		if err = r.opens(path, 0o4); err != nil {
			err = fmt.Errorf("%w: give burstd a copy (install -m 0400 -o %s %s /etc/burst/munge.key) and name that", err, r.name, path)
		}
	}
	return r.found(f, err)
}

// found is the finding with what is wrong: what is closed to us, and perhaps not
// to burstd, is unknown.
func (r reader) found(f conf.Finding, err error) conf.Finding {
	switch {
	case err == nil:
		return f
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != r.uid && os.Geteuid() != 0:
		f.Level = conf.Unknown
		err = fmt.Errorf("%w; run burst check as root or %s", err, r.name)
	case errors.Is(err, fs.ErrNotExist):
		f.Level = conf.Missing
	default:
		f.Level = conf.Wrong
	}
	f.Why = fmt.Sprintf("%v.", err)
	return f
}

// opens says why he may not read, or with 0o2 write, a file, by its mode and
// those of its folders.
func (r reader) opens(path string, want fs.FileMode) error {
	err := hostcheck.User{Name: r.name, UID: r.uid, Groups: r.groups}.Opens("/", path, want)
	var closed *hostcheck.Closed
	if errors.As(err, &closed) {
		return fmt.Errorf("%s, as whom burstd runs, may not open %s: it is uid %d's, with mode %04o", r.name, closed.Path, closed.UID, closed.Mode)
	}
	return err
}

// asks says why he may not ask the ssh-agent, which answers its own user and root alone.
func (r reader) asks(socket string) error {
	info, err := os.Stat(socket)
	if err != nil {
		return err
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); r.uid != 0 && owner != r.uid {
		return fmt.Errorf("the ssh-agent is uid %d's, and answers nobody else but root: run it as %s, as whom burstd runs", owner, r.name)
	}
	return r.opens(socket, 0o2)
}

// unseen is advice about what burstd's unit closes or hides (ProtectHome, PrivateTmp),
// or removes (RuntimeDirectory).
func unseen(key, path string) []conf.Finding {
	if strings.HasPrefix(path, "/run/burst/") {
		return []conf.Finding{{Level: conf.Advice, Key: key, Have: path,
			Why: "burstd.service removes /run/burst when it stops: use a folder of its own, as /run/burst-ssh."}}
	}
	for _, closed := range []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"} {
		if strings.HasPrefix(path, closed) {
			return []conf.Finding{{Level: conf.Advice, Key: key, Have: path,
				Why: fmt.Sprintf("burstd.service has no %s: put it below /etc/burst or /run, or start burstd otherwise.", strings.TrimSuffix(closed, "/"))}}
		}
	}
	return nil
}
