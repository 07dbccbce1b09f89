package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// budgetEvery is the time between two looks at the caps, beside those before launches.
const budgetEvery = 10 * time.Second

// budgetPart is how much longer than a look the time to the next one is: a large ledger is
// summed up for it.
const budgetPart = 20

// newKeeper has launches judged by [budget]; nil: there is none.
func (d *Daemon) newKeeper(ctx context.Context) *spending.Keeper {
	if d.cfg.Budget == nil {
		return nil
	}
	k := &spending.Keeper{Caps: d.cfg.Budget.Caps, Pools: map[string]spending.Times{}, Price: d.dearest, Increment: d.increment,
		Latest: d.watcher.Latest, Ledger: d.store, Log: d.log}
	for _, p := range d.cfg.Pools {
		k.Pools[p.Power.Name] = spending.Times{Boot: p.Slurm.ResumeTimeout, Suspend: p.Slurm.SuspendTime, End: p.Slurm.SuspendTimeout, Stays: p.Power.Serves}
	}
	k.InPlaceOf = func(node string) string { return d.guard.InPlaceOf(node) } // which is made after the engine
	k.Over = d.timeouts.after
	cloud := d.poolNodes()
	k.Cloud = func(n string) bool { return cloud[n] }
	k.Own = newOwnBudgets(ctx, d.client, d.watcher.Latest, func() { d.engine.Wake() }).of
	return k
}

// affordInPlaceOf is ft.Config.Afford: of the sources that may have something now one has to fit. The launch itself is judged
// again, beside others.
func (d *Daemon) affordInPlaceOf(ctx context.Context, raised map[string]string) (ask func(inPlaceOf string) (why string), err error) {
	standing := d.engine.Standing()
	books, err := d.keeper.Ask(ctx, standing, nil)
	if err != nil {
		return nil, err
	}
	ask = func(node string) (why string) {
		now := time.Now()
		for _, s := range d.sourcesOf(node) {
			first := d.engine.Now(s, 1, now).First
			if first == (cloud.Offering{}) {
				continue
			}
			r := books.WouldInPlaceOf(node, launchOf(s, first, 1, now))
			if r.Why == "" || r.Brief {
				return ""
			}
			why = r.Why
		}
		return why
	}
	for _, node := range slices.Sorted(maps.Keys(raised)) {
		if n, ordered := standing.Nodes[node]; !ordered || n.Phase == power.Wanted { // what is launched is in the books
			ask(raised[node])
		}
	}
	return ask, nil
}

// sourcesOf are those of the node's pool.
func (d *Daemon) sourcesOf(node string) []power.Pool {
	for _, p := range d.cfg.Pools {
		if slices.Contains(p.Power.Nodes, node) {
			return p.Power.Sources()
		}
	}
	return nil
}

// dearest is the higher of the prices that are known of an offering now, or that of the dearest zone;
// asked is false until its cloud has been asked, by what pools may buy and by the ledger for what lives.
func (d *Daemon) dearest(provider string, o cloud.Offering) (usd float64, asked bool) {
	usd, _ = d.market.price(provider, o)
	usd, asked = max(usd, d.prices.price(provider, o).USDPerHour), d.market.asked(provider, o) && d.prices.asked()
	if usd == 0 {
		o.Zone = ""
		usd, _ = d.market.price(provider, o)
	}
	return usd, asked
}

// Budget tells how the caps stand: all of them, or those of one user and the user's jobs.
func (d *Daemon) Budget(ctx context.Context, uid int) ([]api.BudgetRow, error) {
	if d.keeper == nil {
		return []api.BudgetRow{}, nil
	}
	rows, err := d.budgetRows(ctx)
	if err != nil {
		return nil, err
	}
	all, name := []api.BudgetRow{}, ""
	if uid >= 0 {
		name = d.userName(ctx, uid)
	}
	for _, r := range rows {
		if uid >= 0 && !d.theirs(r.Scope, uid, name) {
			continue
		}
		all = append(all, api.BudgetRow{Of: string(r.Kind), Name: r.Name, Period: r.Length, From: r.From, To: r.To, Cap: r.Cap,
			Spent: r.Spent, Committed: r.Committed, Left: r.Left(), UnpricedHours: r.Unpriced, AtCap: d.cfg.Budget.AtCap})
	}
	return all, nil
}

// budgetRows are the caps as they stand by Slurm's last word. Its first is waited for, if it answers.
func (d *Daemon) budgetRows(ctx context.Context) ([]budget.Row, error) {
	if _, err := d.watcher.Fresh(ctx, time.Time{}); err != nil && ctx.Err() != nil {
		return nil, err
	}
	return d.keeper.Rows(ctx, d.engine.Standing())
}

// theirs says that the cap is the user's, or that of a job of the user's. A name that is not known is empty.
func (d *Daemon) theirs(s budget.Scope, uid int, name string) bool {
	switch s.Kind {
	case budget.User:
		return name != "" && name == s.Name
	case budget.Job:
		id, err := strconv.ParseUint(s.Name, 10, 32)
		snap := d.watcher.Latest()
		if err != nil || snap == nil {
			return false
		}
		j, known := snap.Jobs[uint32(id)]
		return known && j.UID == uid
	}
	return false
}

// keepBudget tells when caps are nearly reached, and has nodes leave when the cluster's is
// exceeded, until ctx ends.
func (d *Daemon) keepBudget(ctx context.Context) error {
	if d.keeper == nil {
		return nil
	}
	told, said := map[budget.Key]bool{}, ""
	for {
		text, began := "", time.Now()
		if err := d.lookAtBudget(ctx, told); err != nil {
			text = err.Error()
		}
		if text != "" && text != said && ctx.Err() == nil {
			d.log.Warn("how the budgets stand is not known now", "error", text)
		}
		said = text
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(jitter(budgetEvery), budgetPart*time.Since(began))):
		}
	}
}

func (d *Daemon) lookAtBudget(ctx context.Context, told map[budget.Key]bool) error {
	rows, err := d.budgetRows(ctx)
	if err != nil {
		return err
	}
	d.meters.budget(rows)
	for _, r := range rows {
		key := budget.KeyOf(r.Scope, r.Period)
		if r.Used() < float64(d.cfg.Budget.Warn) || told[key] {
			continue
		}
		begin := r.Title() + ": "
		have, err := d.store.HasEvent(ctx, "budget-warn", begin)
		if err != nil {
			return err
		}
		if !have {
			text := begin + fmt.Sprintf("%.0f %% are spent (%.2f USD) or committed (%.2f USD)", r.Used(), r.Spent, r.Committed)
			if err := d.journal.CommitFT(ctx, ft.Change{Events: []ft.Event{{Time: time.Now(), Kind: "budget-warn", Text: text}}}); err != nil {
				return err
			}
		}
		told[key] = true
	}
	r, is, err := d.keeper.Exceeded(ctx, d.engine.Standing(), rows)
	if err != nil || !is {
		return err
	}
	return d.closeNodes(ctx, r)
}

// closeNodes has Slurm give the nodes that are up no more jobs, and power them down when those
// that they have are over. A job that Slurm starts on a node that is up is no launch, and nobody is
// asked: without this, a queue could keep nodes up, whatever the cap.
func (d *Daemon) closeNodes(ctx context.Context, r budget.Row) error {
	snap, err := d.watcher.Fresh(ctx, time.Now())
	if err != nil {
		return err
	}
	var nodes []string
	for name, n := range d.engine.Standing().Nodes {
		state := snap.Nodes[name].State
		going := slices.ContainsFunc([]string{slurm.Drain, slurm.PowerDown, slurm.PoweringDown, slurm.PoweredDown, slurm.PoweringUp}, state.Has)
		if n.Phase == power.Up && !going && state.Base != "" && !d.engine.ServesFiles(name) {
			nodes = append(nodes, name)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	slices.Sort(nodes)
	text := fmt.Sprintf("%s: %.2f USD more than all of it could be spent: the node takes no more jobs", r.Title(), -r.Left())
	var events []ft.Event
	for _, n := range nodes {
		events = append(events, ft.Event{Time: time.Now(), Kind: "budget-leave", Node: n, Text: text})
	}
	// First the nodes: while scontrol fails, each look would say so anew. A crash in between loses no more than that.
	if err := d.client.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: nodes, State: "power_down_asap", Reason: "burst: budget"}); err != nil {
		return fmt.Errorf("closing nodes as the budget is exceeded: %w", err)
	}
	return d.journal.CommitFT(ctx, ft.Change{Events: events})
}
