package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/daemon"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

// printClusterID is for who needs the id before burstd runs, for a policy that names it. Where there is none it is made as by
// burstd's first start, with the journal: the next burstd takes both over.
func printClusterID(ctx context.Context, path string) error {
	ep, err := endpoint.Load(path)
	if err != nil {
		return cli.UsageError(err, "\"burst init\" writes it")
	}
	text, err := os.ReadFile(ep.ClusterFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the cluster's id: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		if err := makeState(ep); err != nil {
			return err
		}
		if err := becomeOwner(ep.State); err != nil {
			return err
		}
		if id, err = daemon.ClusterID(ctx, ep); err != nil {
			return err
		}
	}
	_, err = fmt.Println(id)
	return err
}

// makeState makes the state folder as systemd does when burstd first starts: SlurmUser's, and for nobody else to write.
func makeState(ep endpoint.Config) error {
	syscall.Umask(0o027)
	if _, err := os.Stat(ep.State); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Geteuid() != 0 {
		return cli.UsageError(fmt.Errorf("the state folder %s is not there yet", ep.State), "run it as root, who makes it SlurmUser's")
	}
	u, err := user.Lookup(ep.SlurmUser)
	if err != nil {
		return fmt.Errorf("making %s for SlurmUser: %w", ep.State, err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return fmt.Errorf("making %s for SlurmUser: %w", ep.State, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return fmt.Errorf("making %s for SlurmUser: %w", ep.State, err)
	}
	// Another name first: a folder of root's at the right place would be left by a crash.
	fresh, err := os.MkdirTemp(filepath.Dir(ep.State), ".burst-*")
	if err != nil {
		return fmt.Errorf("making %s: %w", ep.State, err)
	}
	defer os.Remove(fresh) // gone already when the rename has succeeded
	if err := errors.Join(os.Chmod(fresh, 0o750), os.Chown(fresh, uid, gid), os.Rename(fresh, ep.State)); err != nil {
		return fmt.Errorf("making %s: %w", ep.State, err)
	}
	return nil
}
