package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm"
)

// How what a job is told of a server begins; by it it is known again, and taken back.
const (
	waitsFor = "burst: its nodes are launched when server "
	hasLost  = "burst: server "
)

// tellWaiting writes into the jobs of nodes that wait for a server what they wait for, beside Run. A
// comment that is not ours stays; what cannot be written is no reason to wait.
func (e *Engine) tellWaiting(ctx context.Context, server string, nodes []Node, snap *slurm.Snapshot) {
	if e.servers.telling {
		return
	}
	jobs := map[uint32]bool{}
	for _, n := range nodes {
		if !e.untold(n) || len(jobs) == maxTelling {
			continue
		}
		e.servers.told[asking{n.Job, n.Order}] = true
		if j, known := snap.Jobs[n.Job]; known && (j.AdminComment == "" || strings.HasPrefix(j.AdminComment, "burst: ")) {
			jobs[n.Job] = true
		}
	}
	if len(jobs) == 0 {
		return
	}
	e.servers.telling = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		text := waitsFor + server + " is up, which they mount from"
		for _, id := range slices.Sorted(maps.Keys(jobs)) {
			if err := e.slurm.UpdateJob(ctx, id, slurm.JobUpdate{AdminComment: &text}); err != nil {
				e.log.Debug("a job could not be told that it waits for a server", "job", id, "server", server, "error", err)
			}
		}
		return func(context.Context) { e.servers.telling = false }
	})
}

// tellOfServers writes into the jobs of nodes whose server has gone that they may hang, and takes back what is
// not so any more of what jobs were told of servers. lost is by node.
func (e *Engine) tellOfServers(ctx context.Context, snap *slurm.Snapshot, lost map[string]string) {
	if e.servers.telling {
		return
	}
	waits := map[uint32]bool{}
	for _, n := range e.mem.inPhase(Wanted) {
		waits[n.Job] = true
	}
	texts := map[uint32]string{}
	on := runningOn(snap, func(node string) bool { return lost[node] != "" })
	for _, node := range slices.Sorted(maps.Keys(on)) {
		for id := range on[node] {
			if texts[id] == "" {
				texts[id] = fmt.Sprintf("%s%s, which node %s mounted from, is gone with its files: what uses them hangs; requeue or cancel the job", hasLost, lost[node], node)
			}
		}
	}
	tell := map[uint32]string{}
	for id, j := range snap.Jobs {
		if len(tell) == maxTelling || !slices.Contains([]string{"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"}, j.State) {
			continue // one that has ended takes none
		}
		had := j.AdminComment
		ours := strings.HasPrefix(had, hasLost) || strings.HasPrefix(had, waitsFor) && !waits[id]
		switch text := texts[id]; {
		case text != "" && text != had && (had == "" || strings.HasPrefix(had, "burst: ")), text == "" && ours:
			tell[id] = text
		}
	}
	if len(tell) == 0 {
		return
	}
	e.servers.telling = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		for _, id := range slices.Sorted(maps.Keys(tell)) {
			text := tell[id]
			if err := e.slurm.UpdateJob(ctx, id, slurm.JobUpdate{AdminComment: &text}); err != nil {
				e.log.Debug("a job could not be told of its server", "job", id, "text", text, "error", err)
			}
		}
		return func(context.Context) { e.servers.telling = false }
	})
}
