package daemon

import "github.com/burst-hpc/burst/slurm/overflow/budget"

// budget shows how the cluster's caps stand. Those of accounts, users and jobs, of which there may be
// more and more, are `burst budget`'s.
func (m *meters) budget(rows []budget.Row) {
	for _, r := range rows {
		if r.Kind != budget.Cluster {
			continue
		}
		m.capped.WithLabelValues(r.Length).Set(r.Cap)
		m.capSpent.WithLabelValues(r.Length).Set(r.Spent)
		m.capHeld.WithLabelValues(r.Length).Set(r.Committed)
	}
}
