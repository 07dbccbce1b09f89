package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/store"
)

// printUnended is for the package's removal: no burstd need run, and burst.toml may be half edited.
func printUnended(ctx context.Context, path string) error {
	ep, err := endpoint.Load(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := becomeOwner(ep.DB()); err != nil {
		return err
	}
	all, err := store.ReadUnended(ctx, ep.DB())
	if errors.Is(err, store.ErrLost) {
		return cli.WithHint(err, "restore a backup of it; without one, a burstd that is started finds them again by the id")
	} else if err != nil {
		return err
	}
	for _, u := range all {
		nodes := "no node"
		if len(u.Nodes) > 0 {
			nodes = strings.Join(u.Nodes, ",")
		}
		what := fmt.Sprintf("instance %s (%s, %s)", u.ID, u.Provider, u.Type)
		if u.ID == "" {
			what = fmt.Sprintf("launch under way (%s)", u.Provider)
		}
		fmt.Printf("%s for %s, since %s\n", what, nodes, u.Since.Local().Format(time.DateTime))
	}
	return nil
}

// becomeOwner has root open the journal as its owner: what SQLite makes beside it must not be
// root's, or the next burstd could not open it.
func becomeOwner(path string) error {
	st, err := os.Stat(path)
	if err != nil || os.Geteuid() != 0 {
		return nil // there is none, or what fails now fails when it is opened
	}
	owner := st.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(int(owner.Gid)), syscall.Setuid(int(owner.Uid))); err != nil {
		return fmt.Errorf("becoming uid %d, the owner of %s: %w", owner.Uid, path, err)
	}
	return nil
}
