package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
)

// sourceOf is the pool as it buys of the provider, or, if none is named, of its first.
func sourceOf(pool config.Pool, provider string) (config.Pool, error) {
	if provider == "" {
		return pool.Sources()[0], nil
	}
	source, ok := pool.Source(provider)
	if !ok {
		return source, cli.UsageError(fmt.Errorf("pool %s buys nothing of a provider %s", pool.Power.Name, printable(provider)),
			"it buys of "+strings.Join(pool.Providers(), ", "))
	}
	return source, nil
}

// builtFor is the cluster's id. What another user wrote into burstd's state folder,
// burstd could not use, or not write to.
func builtFor(cfg *config.Config) (string, error) {
	info, err := os.Stat(cfg.Endpoint.State)
	if err != nil {
		return "", cli.WithHint(fmt.Errorf("burstd's state folder: %w", err), "images are made on burstd's host, by its user")
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		name := fmt.Sprintf("#%d", owner)
		if u, err := user.LookupId(strconv.Itoa(int(owner))); err == nil {
			name = u.Username
		}
		return "", cli.UsageError(fmt.Errorf("images are made by burstd's user, %s, to whom %s belongs", name, cfg.Endpoint.State), fmt.Sprintf("sudo -u %s burst image build …", name))
	}
	id, why := clusterID(cfg.Endpoint.ClusterFile())
	if id == "" {
		return "", cli.WithHint(fmt.Errorf("the cluster's id is not known: %s", why.Text), "as root, burstd --cluster-id makes it")
	}
	return id, nil
}

// errFails is no word on what burstd ends: another pool may have met with a lack of capacity. But nothing
// is begun with it.
var errFails = errors.New("burstd's last call to the provider has failed, and it might not find the instance if this command were killed")

// mayBuild says why an instance must not be launched now. Its burstd must answer: nobody else
// would end what a command that is killed leaves behind. And whoever has pressed the red button must
// not find an instance that came after. A pool that burstd itself has stopped may have an image
// made, which may be what it needs. ErrFails is wrapped if all that is wrong is that
// a call of burstd's to the provider has failed.
func mayBuild(ctx context.Context, cfg *config.Config, source config.Pool, cluster string) error {
	pool, name := source.Power.Name, source.Power.Provider
	if w, ok := stopall.Left(cfg.Endpoint.PauseFile()); ok {
		return cli.WithHint(fmt.Errorf("nothing is launched: burstd is to be paused: %s", printable(w.Why)), "burst resume ends the pause")
	}
	client := api.NewClient(cfg.Endpoint.Socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	status, err := client.Status(ctx)
	provider, _ := cfg.Provider(name)
	well, watched := status.Providers[name]
	switch {
	case err != nil:
		return fmt.Errorf("without burstd nobody would end the instance if this command were killed: %w", explain(err))
	case status.Paused != nil:
		return cli.WithHint(fmt.Errorf("nothing is launched: burstd is paused: %s", printable(status.Paused.Why)), "burst resume ends the pause")
	case slices.Contains(status.ByHand, pool):
		return cli.WithHint(fmt.Errorf("nothing is launched: pool %s is stopped: %s", pool, printable(status.Stopped[pool])), "burst pool start %s ends that", pool)
	case status.Cluster != cluster:
		return cli.UsageError(fmt.Errorf("%s says that this cluster is %s, and burstd that it is %s", cfg.Endpoint.ClusterFile(), printable(cluster), printable(status.Cluster)),
			"[daemon] state and socket must be those of one burstd")
	case !watched:
		return cli.WithHint(fmt.Errorf("the burstd that runs has no provider %s: it would not end the instance if this command were killed", name), "restart burstd first: it has not read burst.toml since")
	case status.Places[name] != provider.Place():
		return cli.WithHint(fmt.Errorf("provider %s is %q here and %q in the burstd that runs, which would not end the instance if this command were killed", name, provider.Place(), printable(status.Places[name])),
			"restart burstd first: it has not read burst.toml since")
	case well != "ok":
		return cli.WithHint(fmt.Errorf("%w: %s: %s", errFails, name, printable(well)), "try again when burst status has the provider as ok")
	}
	return nil
}

// burstdUses says which pools of the burstd that runs have the image, which may have read another
// file than the one that is there now. It is no error that none runs: one that starts reads the file.
func burstdUses(ctx context.Context, cfg *config.Config, ids []string) error {
	client := api.NewClient(cfg.Endpoint.Socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	pools, err := client.Pools(ctx)
	if errors.Is(err, api.ErrAway) && ctx.Err() == nil { // one that hangs is there
		return nil
	}
	if err != nil {
		return fmt.Errorf("whether burstd's pools have the image is not known; nothing is deleted: %w", explain(err))
	}
	for _, p := range pools {
		for _, id := range ids {
			if isImage(p.Image, id) {
				return cli.WithHint(fmt.Errorf("image %s is that of pool %s in the burstd that runs; nothing is deleted", printable(id), p.Pool), "restart burstd: it has not read burst.toml since")
			}
		}
	}
	return nil
}

// isImage says whether a pool that names an image means the one with the id.
func isImage(named, id string) bool { return named != "" && (named == id || "snapshot:"+named == id) }
