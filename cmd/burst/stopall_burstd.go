package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
)

// burstdTimeout is how long the red button waits for burstd, which may hang.
const burstdTimeout = 10 * time.Second

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
	if err := writeTable(b.err, rows); err != nil {
		return "", err
	}
	return "", cli.UsageError(errors.New("it is not known which cluster is this one"),
		"--cluster-id ID ends that cluster's instances; a backup of the file cluster-id, or the tag burst:cluster of an instance of this site, has it")
}

// quiet has burstd launch nothing more of what ends, and says how that went.
func (b *button) quiet(ctx context.Context) (said string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	const away = "burstd was not told: %s; if it runs, or starts again, it launches what jobs ask for"
	s, err := b.client.Status(ctx)
	if err != nil {
		return fmt.Sprintf(away, printable(err.Error())), false
	}
	if s.Cluster != b.cluster {
		return fmt.Sprintf("burstd was not told: it serves the cluster %s", printable(s.Cluster)), false
	}
	if b.pool == "" && b.provider == "" {
		if err := b.client.ChangePause(ctx, api.PauseChange{Pause: true, Reason: "burst stop-all"}); err != nil {
			return fmt.Sprintf(away, printable(err.Error())), false
		}
		return "burstd is paused: nothing is launched until burst resume", true
	}
	pools := b.pools()
	for _, p := range pools {
		if err := b.client.ChangePool(ctx, api.PoolChange{Pool: p, Stop: true, Reason: "burst stop-all"}); err != nil {
			return fmt.Sprintf(away, printable(err.Error())), false
		}
	}
	if len(pools) == 0 {
		return "burstd was not told: none of its pools is meant", false
	}
	return fmt.Sprintf("burstd has stopped pool %s: it launches nothing until burst pool start", strings.Join(pools, ", ")), true
}

// pools are the configured ones whose instances end.
func (b *button) pools() []string {
	var all []string
	for _, p := range b.cfg.Pools {
		if (b.pool == "" || p.Power.Name == b.pool) && (b.provider == "" || p.Power.Provider == b.provider) {
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
