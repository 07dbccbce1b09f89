package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
)

// burstdTimeout is how long the red button waits for burstd, which may hang.
const burstdTimeout = 10 * time.Second

// another says that burstd serves another cluster than the state folder names:
// one of them is somebody else's. It takes in which instances have files, and what burstd's journal has of
// providers that are not configured, where this command cannot look either.
func (b *button) another(ctx context.Context) error {
	s, err := b.status(ctx)
	b.files = s.Files
	if err == nil && (s.Cluster == "" || s.Cluster == b.cluster) {
		b.left = s.Left
	}
	if b.named || err != nil || s.Cluster == "" || s.Cluster == b.cluster {
		return nil
	}
	return cli.UsageError(fmt.Errorf("%s says that this cluster is %s, and burstd that it is %s", b.cfg.Endpoint.ClusterFile(), printable(b.cluster), printable(s.Cluster)),
		"--cluster-id ID ends the instances of the one that you mean")
}

// showFiles says which of the instances have files that burst.toml does not say, as their pools have left it.
func (b *button) showFiles(found map[string][]cloud.Instance) {
	for _, f := range b.files {
		for _, all := range found {
			at := slices.IndexFunc(all, func(i cloud.Instance) bool { return i.ID == f.Instance })
			if at < 0 || slices.ContainsFunc(b.cfg.Pools, func(p config.Pool) bool { return p.Slurm.Server && p.Power.Name == b.poolOf(all[at]) }) {
				continue
			}
			fmt.Fprintf(b.err, "Pool %s, which has left burst.toml, serves files: what %s (%s) serves is lost.\n", printable(f.Pool), printable(f.Node), f.Instance)
		}
	}
}

// findCluster reads the cluster's id from burstd's state folder, or asks
// burstd, or says which clusters the clouds have.
func (b *button) findCluster(ctx context.Context) (string, error) {
	id, why := clusterID(b.cfg.Endpoint.ClusterFile())
	if id != "" {
		return id, nil
	}
	call, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	if s, err := b.client.Status(call); err == nil && s.Cluster != "" {
		return s.Cluster, nil
	}
	fmt.Fprintf(b.err, "The cluster's id is not known: %s; burstd does not say it either.\n", printable(why.Text))
	if err := b.showClusters(ctx, ""); err != nil {
		return "", err
	}
	return "", cli.UsageError(errors.New("it is not known which cluster is this one"),
		"--cluster-id ID ends that cluster's instances; a backup of the file cluster-id, or the tag burst:cluster of an instance of this site, has it")
}

// showClusters says whose instances the clouds have, if any, after the text.
func (b *button) showClusters(ctx context.Context, text string) error {
	rows := [][]string{{"PROVIDER", "CLUSTER ID", "INSTANCES"}}
	for _, name := range slices.Sorted(maps.Keys(b.providers)) {
		census, ok := b.providers[name].(cloud.Census)
		if !ok {
			rows = append(rows, []string{name, "(it cannot say)", "-"})
			continue
		}
		call, cancel := context.WithTimeout(ctx, cloudTimeout)
		found, err := census.Clusters(call)
		cancel()
		if err != nil {
			rows = append(rows, []string{name, "(" + err.Error() + ")", "-"})
		}
		for _, id := range slices.Sorted(maps.Keys(found)) {
			rows = append(rows, []string{name, id, fmt.Sprint(found[id])})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.failed)) {
		rows = append(rows, []string{name, "(" + b.failed[name].Error() + ")", "-"})
	}
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprint(b.err, text)
	return writeTable(b.err, rows)
}

// quiet has burstd launch nothing more of what ends, and says how that went. A
// burstd that does not take the word finds it in its state folder.
func (b *button) quiet(ctx context.Context) (said string, ok bool) {
	s, err := b.status(ctx)
	if err == nil && s.Cluster != b.cluster {
		return fmt.Sprintf("burstd was not told: it serves the cluster %s", printable(s.Cluster)), false
	}
	all := b.pool == "" && b.provider == ""
	pools := b.pools()
	if !all && len(pools) == 0 {
		return "burstd was not told: none of its pools is meant", false
	}
	if err == nil {
		err = b.halt(ctx, all, pools)
	}
	switch {
	case err == nil && all:
		return "burstd is paused: nothing is launched until burst resume", true
	case err == nil:
		return fmt.Sprintf("burstd has stopped pool %s: it launches nothing until burst pool start", strings.Join(pools, ", ")), true
	case !all:
		return fmt.Sprintf("burstd was not told: %s; if it runs, or starts again, it launches what jobs ask for", printable(err.Error())), false
	}
	if left := b.leave(); left != nil {
		return fmt.Sprintf("burstd was not told: %s; nor could it be left in its state folder: %s; if it runs, or starts again, it launches what jobs ask for",
			printable(err.Error()), printable(left.Error())), false
	}
	return fmt.Sprintf("burstd was not told: %s; it finds the word in its state folder, and launches nothing from then on until burst resume", printable(err.Error())), false
}

func (b *button) status(ctx context.Context) (api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	return b.client.Status(ctx)
}

// halt pauses burstd, or stops the pools.
func (b *button) halt(ctx context.Context, all bool, pools []string) error {
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	if all {
		return b.client.ChangePause(ctx, api.PauseChange{Pause: true, Reason: stopAllReason})
	}
	var failed []error
	for _, p := range pools {
		if err := b.client.ChangePool(ctx, api.PoolChange{Pool: p, Stop: true, Reason: stopAllReason}); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

const stopAllReason = "burst stop-all"

// leave has a burstd that starts later start paused, if its state folder is that of the
// cluster that ends.
func (b *button) leave() error {
	if id, _ := clusterID(b.cfg.Endpoint.ClusterFile()); id != "" && id != b.cluster {
		return fmt.Errorf("it is that of the cluster %s", id)
	}
	return stopall.Leave(b.cfg.Endpoint.PauseFile(), stopall.Wish{By: fmt.Sprint("uid ", os.Getuid()), Why: stopAllReason})
}

// pools are the configured ones whose instances end.
func (b *button) pools() []string {
	var all []string
	for _, p := range b.cfg.Pools {
		if (b.pool == "" || p.Power.Name == b.pool) && (b.provider == "" || slices.Contains(p.Providers(), b.provider)) {
			all = append(all, p.Power.Name)
		}
	}
	return all
}

// launching says that burstd still waits for the outcome of a launch.
func (b *button) launching(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	nodes, err := b.client.Nodes(ctx)
	if err != nil {
		return false // then the provider's lag has to do
	}
	pools := b.pools()
	return slices.ContainsFunc(nodes, func(n api.NodeStatus) bool { return n.Journal == "launching" && slices.Contains(pools, n.Pool) })
}

// progressLine shows how many instances are gone: in one line of a terminal,
// else in a line for each change.
type progressLine struct {
	w     io.Writer
	tty   bool
	found map[string][]cloud.Instance
	last  map[string]stopall.Progress
	drawn bool
}

func (p *progressLine) report(now stopall.Progress) {
	if p.last == nil {
		p.last = map[string]stopall.Progress{}
	}
	before, known := p.last[now.Provider]
	p.last[now.Provider] = now
	if now.Err != nil && (before.Err == nil || before.Err.Error() != now.Err.Error()) {
		p.end()
		fmt.Fprintf(p.w, "provider %s: %s; it is tried again\n", now.Provider, printable(now.Err.Error()))
	}
	if now.Err != nil && now.Found == 0 {
		return // it has not been asked: that is no count
	}
	if !p.tty {
		if !known || now.Found != before.Found || now.Gone != before.Gone {
			fmt.Fprintf(p.w, "provider %s: %d of %d instances gone\n", now.Provider, now.Gone, now.Found)
		}
		return
	}
	found, gone := 0, 0
	for name, all := range p.found {
		found += max(0, len(all)-p.last[name].Found) // not looked at yet
	}
	for _, r := range p.last {
		found, gone = found+r.Found, gone+r.Gone
	}
	const width = 40
	full := width
	if found > 0 {
		full = width * gone / found
	}
	fmt.Fprintf(p.w, "\r[%s%s] %d of %d instances gone ", strings.Repeat("#", full), strings.Repeat(".", width-full), gone, found)
	p.drawn = true
}

// end leaves the line.
func (p *progressLine) end() {
	if p.drawn {
		fmt.Fprintln(p.w)
	}
	p.drawn = false
}
