package power

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// route is where a job may have its nodes of.
type route struct {
	size  int       // how many nodes it needs
	dry   []string  // pools that are dry for it
	to    []string  // pools that are not, and have room for it
	site  bool      // so have nodes that are no cloud's
	first time.Time // when the first of the dry ones may have something
}

// route finds the pools that have nodes in the partitions of a job that waits.
func (e *Engine) route(a asks, dry dryPools, snap *slurm.Snapshot) route {
	r := route{size: a.job.NumNodes}
	var others []Pool
	parts := strings.Split(a.job.Partition, ",")
	for _, name := range slices.Sorted(maps.Keys(e.pools)) {
		pool := e.pools[name]
		if !slices.ContainsFunc(pool.Nodes, func(n string) bool { return within(parts, snap.Nodes[n]) }) || pool.Serves {
			continue
		}
		until, is := dry(r.size)[name]
		if !is {
			others = append(others, pool)
			continue
		}
		r.dry = append(r.dry, name)
		if r.first.IsZero() || until.Before(r.first) {
			r.first = until
		}
	}
	large := e.sizeOf(r.dry, parts, snap)
	for _, pool := range others {
		if a.roomIn(pool, large, snap) {
			r.to = append(r.to, pool.Name)
		}
	}
	// The site is mostly full: what keeps a pool's nodes for a moment alone would have the job called back again and again.
	some := func(pool string) bool { return dry(0)[pool].IsZero() }
	if len(r.dry) > 0 && !slices.ContainsFunc(r.dry, some) {
		r.site = a.roomIn(e.site(parts, snap), large, snap)
	}
	return r
}

// site are the nodes in some partitions that are no cloud's, as if they were a pool's. One that has left the
// configuration is no place to go.
func (e *Engine) site(parts []string, snap *slurm.Snapshot) (site Pool) {
	for name, n := range snap.Nodes {
		if e.ofSite(n) && within(parts, n) {
			site.Nodes = append(site.Nodes, name)
		}
	}
	return site
}

func (e *Engine) ofSite(n slurm.Node) bool { return !e.Owns(n.Name) && !n.State.Has(cloudFlag) }

// where says where the job may go.
func (r route) where() string {
	var all []string
	if len(r.to) > 0 {
		all = append(all, "pool "+strings.Join(r.to, " or "))
	}
	if r.site {
		all = append(all, "nodes of the site")
	}
	return strings.Join(all, " or ")
}

// partitions are what Slurm shows of them, by name; nil: that is not known, and each may start any job.
type partitions map[string]map[string]string

// partitions reads them.
func (e *Engine) partitions(ctx context.Context) partitions {
	s, ok := e.slurm.(partitioned)
	if !ok {
		return nil
	}
	shown, err := s.ShowPartitions(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.log.Warn("which partitions may start jobs is not known: those that go elsewhere may wait there", "error", err)
		}
		return nil
	}
	all := partitions{}
	for _, p := range shown {
		all[p["PartitionName"]] = p
	}
	return all
}

// open lists those of a job's partitions that may start it: neither DOWN nor INACTIVE, nor with a limit of time or nodes that
// it exceeds. A job without a time limit is shown with the most that a partition of its has.
func (all partitions) open(j slurm.Job) string {
	names := strings.Split(j.Partition, ",")
	most := func(name string) time.Duration {
		d, _ := slurm.ParseLimit(all[name]["MaxTime"]) // words are no limit
		return d
	}
	limit := j.TimeLimit
	if slices.ContainsFunc(names, func(name string) bool { return most(name) == limit }) {
		limit = 0
	}
	return strings.Join(slices.DeleteFunc(names, func(name string) bool {
		state, nodes := all[name]["State"], math.MaxInt
		if n, err := strconv.Atoi(all[name]["MaxNodes"]); err == nil { // UNLIMITED is no limit
			nodes = n
		}
		longest := most(name)
		return state == "DOWN" || state == "INACTIVE" || longest > 0 && limit > longest || j.NumNodes > nodes
	}), ",")
}

// within says that the node is in one of a job's partitions: of one that waits, all
// that it was submitted to.
func within(all []string, n slurm.Node) bool {
	return slices.ContainsFunc(n.Partitions, func(p string) bool { return slices.Contains(all, p) })
}

// roomIn says that the job could have all its nodes of the pool, now or when others have
// ended there, as far as its partitions, with their state and limits, features, node list and size go, and reservations.
func (a asks) roomIn(pool Pool, dry size, snap *slurm.Snapshot) bool {
	var fit []string
	j := a.job
	parts := strings.Split(a.open, ",")
	for _, name := range pool.Nodes {
		n := snap.Nodes[name]
		features := n.Features
		switch at := powerOf(snap, name); {
		case at == unknown, at == down, at == failed, n.State.Has(slurm.Drain), spokenFor(n.State), !within(parts, n), !a.fits(n, dry):
			continue
		case at == off, at == poweringDown:
			features = n.Available // those of another source are put back
		}
		if j.Features == "" || suits(j.Features, features) {
			fit = append(fit, name)
		}
	}
	wanted, err := hostlist.Expand(j.Required)
	return len(fit) >= max(1, j.NumNodes) && a.needs.Reservation == "" && (j.Required == "" || err == nil) &&
		!slices.ContainsFunc(wanted, func(n string) bool { return !slices.Contains(fit, n) })
}

// suits says that a node with these features is one that an expression of --constraint
// wants: names, joined by & and |, which Slurm takes from left to right, and brackets. An
// expression that counts nodes (a*2) suits none, as no single node can tell.
func suits(expression string, features []string) bool {
	w := want{rest: strings.ReplaceAll(expression, " ", ""), features: features, sound: true}
	is := w.terms()
	return is && w.sound && w.rest == ""
}

// want reads an expression of features.
type want struct {
	rest     string
	features []string
	sound    bool
}

func (w *want) terms() bool {
	is := w.term()
	for w.sound && w.rest != "" && strings.ContainsRune("&,|", rune(w.rest[0])) {
		or := w.rest[0] == '|'
		w.rest = w.rest[1:]
		if other := w.term(); or {
			is = is || other
		} else {
			is = is && other
		}
	}
	return is
}

func (w *want) term() bool {
	for open, end := range map[string]string{"(": ")", "[": "]"} {
		if inner, ok := strings.CutPrefix(w.rest, open); ok {
			w.rest = inner
			is := w.terms()
			w.rest, ok = strings.CutPrefix(w.rest, end)
			w.sound = w.sound && ok
			return is
		}
	}
	at := strings.IndexAny(w.rest, "&,|()[]*")
	if at < 0 {
		at = len(w.rest)
	}
	name := w.rest[:at]
	w.rest = w.rest[at:]
	w.sound = w.sound && name != ""
	return slices.Contains(w.features, name)
}
