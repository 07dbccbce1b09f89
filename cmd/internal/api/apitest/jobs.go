package apitest

import (
	"context"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// history keeps runs of jobs, and the last question for them.
type history struct {
	jobs  []api.Job
	asked api.JobsQuery
}

// Jobs returns those that SetJobs set, less those that the query leaves out by job
// and user.
func (b *Backend) Jobs(_ context.Context, q api.JobsQuery) ([]api.Job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.asked = q
	var all []api.Job
	for _, j := range b.jobs {
		if (q.Job == 0 || q.Job == j.Job) && (q.User == "" || q.User == j.User) {
			all = append(all, j)
		}
	}
	return all[max(0, len(all)-q.Last):], b.fail
}

// SetJobs sets what Jobs returns.
func (b *Backend) SetJobs(all []api.Job) { b.change(func() { b.jobs = all }) }

// JobsQuery is the last question that Jobs was asked.
func (b *Backend) JobsQuery() api.JobsQuery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.history.asked
}
