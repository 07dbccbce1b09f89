package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
)

// OverflowPlan says what the rules say now, and changes nothing but what is read of scripts.
func (d *Daemon) OverflowPlan(ctx context.Context, ask api.OverflowAsk) ([]api.OverflowJob, error) {
	rules := d.cfg.Overflow
	if len(ask.Rules) > 0 {
		rules = config.Overflow{}
		if err := json.Unmarshal(ask.Rules, &rules); err != nil {
			return nil, &api.Error{Status: http.StatusBadRequest, Message: "the rules are not the JSON they should be"}
		}
	}
	open, err := d.store.OpenOverflows(ctx)
	if err != nil {
		return nil, err
	}
	s, err := d.snapshot(ctx, time.Now().Add(-overflowEvery))
	if err != nil {
		return nil, err
	}
	s.Rules, s.OnPrem, s.Shared = rules.Rules, rules.OnPrem, rules.Shared
	for _, r := range open {
		s.Records = append(s.Records, r.Record)
	}
	// What was read of scripts is by burstd's own file systems.
	reads := &d.overflows
	if !slices.Equal(s.OnPrem.FileSystems, d.cfg.Overflow.OnPrem.FileSystems) {
		reads, s.Scripts = &overflowReads{}, nil
	}
	plan := overflow.Decide(s)
	for left := overflowScripts; left > 0; {
		some := asks(plan, ask.UID, reads)
		if len(some) == 0 {
			break
		}
		for _, j := range some[:min(len(some), left)] {
			if err := reads.readScript(ctx, d.client, s.OnPrem, j); err != nil && ctx.Err() != nil {
				return nil, err
			}
			left--
		}
		s.Scripts, s.Refused = reads.kept(s.Waiting), reads.refusedNow(time.Now())
		plan = overflow.Decide(s)
	}
	all := []api.OverflowJob{}
	for _, dec := range plan {
		w := dec.Job
		if w == nil || ask.UID >= 0 && w.UID != ask.UID {
			continue
		}
		j := api.OverflowJob{Job: jobName(dec.Keys), User: w.User, Account: w.Account, Partition: w.Partition, Nodes: w.NumNodes, Action: doing(dec), Rule: dec.Rule, Unread: dec.Script, Why: dec.Why}
		if !w.Eligible.IsZero() {
			j.Waited = max(0, s.Now.Sub(w.Eligible)).Round(time.Second).Seconds()
		}
		if dec.Action != overflow.Leave {
			j.To = strings.Join(dec.To, ",")
		}
		all = append(all, j)
	}
	return all, nil
}

// asks are the user's jobs whose scripts must be read, and have not been, nor in vain just now.
func asks(plan []overflow.Decision, uid int, reads *overflowReads) (all []slurm.Job) {
	seen := map[overflow.ScriptID]bool{}
	for _, dec := range plan {
		if !dec.Script || uid >= 0 && dec.Job.UID != uid {
			continue
		}
		id := overflow.ScriptOf(dec.Job.Job)
		if !seen[id] && !reads.has(id) && !reads.waits(asked{id, readIt}) {
			seen[id], all = true, append(all, dec.Job.Job)
		}
	}
	return all
}

// doing is what is done about a job, in a word: what is done for a budget is the reverse of what is done by a rule.
func doing(dec overflow.Decision) string {
	switch {
	case dec.Rule != "" || dec.Action == overflow.Leave:
		return string(dec.Action)
	case dec.Action == overflow.Take:
		return "back"
	}
	return "away"
}

// Overflows tells which jobs were moved, and what became of them.
func (d *Daemon) Overflows(ctx context.Context, q api.OverflowQuery) ([]api.Overflowed, error) {
	stored, err := d.store.Overflows(ctx, q.UID, q.Last)
	if err != nil {
		return nil, err
	}
	all := make([]api.Overflowed, len(stored))
	for i, o := range stored {
		all[i] = api.Overflowed{Job: o.Key.String(), User: o.User, Rule: o.Rule, Was: strings.Join(o.Was, ","), To: strings.Join(o.To, ","), State: o.State,
			Added: o.At, Why: o.Why, Ended: o.Ended, EndedWhy: o.EndedWhy}
		if o.ForBudget() { // nothing was added: it has fewer partitions
			all[i].To, all[i].State = strings.Join(overflow.Changed(o.Rule, o.Was, o.To), ","), cmp.Or(awayStates[o.State], o.State)
		}
	}
	return all, nil
}

// awayStates are the states of a job that is kept from the cloud for a budget, as people read them.
var awayStates = map[string]string{overflow.Adding: "changing", overflow.InPlace: "changed", overflow.Taking: "undoing"}
