package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
)

// directory knows the names of users and accounts that burst.toml has caps of and rules about.
type directory struct {
	parents func() map[string][]string // of slurmdbd's accounts, asked once; empty: there is none
	noUser  func(name string) bool
}

func newDirectory(ctx context.Context, cfg *config.Config) directory {
	return directory{
		parents: sync.OnceValue(func() map[string][]string {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			all, err := slurm.New(slurm.Exec{Conf: cfg.Endpoint.SlurmConf, BinDir: cfg.Endpoint.SlurmBin, Timeout: askTimeout}).AccountParents(ctx)
			if err != nil {
				return nil
			}
			return all
		}),
		noUser: func(name string) bool { return unknownUser(ctx, name) },
	}
}

// noAccount says that slurmdbd has no such account. Where there is no slurmdbd one is whatever users write.
func (d directory) noAccount(name string) bool {
	all := d.parents()
	_, has := all[name]
	return len(all) > 0 && !has
}

// below are the accounts below this one, on any cluster, but those of less.
func (d directory) below(name string, less ...string) []string {
	if name == "" {
		return nil
	}
	found := map[string]bool{name: true}
	for more := true; more; {
		more = false
		for child, parents := range d.parents() {
			if !found[child] && slices.ContainsFunc(parents, func(p string) bool { return found[p] }) {
				found[child], more = true, true
			}
		}
	}
	delete(found, name)
	for _, l := range less {
		delete(found, l)
	}
	return slices.Sorted(maps.Keys(found))
}

// some are the first of the names, for people.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// unknownUser says that the host's directories of users have no such one; one that does not answer says nothing.
func unknownUser(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var none *exec.ExitError
	return errors.As(exec.CommandContext(ctx, "getent", "passwd", "--", name).Run(), &none) && none.ExitCode() == 2
}
