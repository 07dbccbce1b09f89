// Package crash marks the points at which burstd touches what outlives it:
// before and after every commit, provider call and Slurm command. Tests stop
// the daemon at each of them in turn; the points are those that the code
// passes, not a list kept by hand.
package crash

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// Point is called with a point's name, such as "before commit power" or "after
// scontrol update". An error stands for the daemon's death there: what is
// about to be done is not done, or its answer is lost.
type Point func(name string) error

// Journal is all that the daemon's parts need of the store.
type Journal interface {
	AddOrder(ctx context.Context, o power.Order) (bool, error)
	LoadPower(ctx context.Context) (power.State, error)
	CommitPower(ctx context.Context, c power.Change) error
	Known(ctx context.Context, ids []string) (map[string]bool, error)
	AddNotice(ctx context.Context, provider string, n cloud.Notice) (bool, error)
	NoticeOf(ctx context.Context, instance string, kind cloud.NoticeKind) (ft.Notice, error)
	LoadFT(ctx context.Context) (ft.State, error)
	Moved(ctx context.Context, since time.Time) ([]ft.Eviction, error)
	CommitFT(ctx context.Context, c ft.Change) error
	NodeOf(ctx context.Context, instance string) (string, error)
	CommitSession(ctx context.Context, c session.Change) error
	OrderOf(ctx context.Context, job uint32, attempt int) (session.Order, error)
	OpenSessions(ctx context.Context) ([]session.Session, error)
}

// around runs do between the two points of name.
func around[T any](p Point, name string, do func() (T, error)) (T, error) {
	var zero T
	if err := p("before " + name); err != nil {
		return zero, err
	}
	v, err := do()
	if perr := p("after " + name); perr != nil {
		return zero, perr
	}
	return v, err
}

func nothing(do func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, do() }
}

// InJournal marks the writes of j.
func InJournal(j Journal, p Point) Journal { return &journal{j, p} }

type journal struct {
	Journal
	point Point
}

func (j *journal) AddOrder(ctx context.Context, o power.Order) (bool, error) {
	return around(j.point, "commit order", func() (bool, error) { return j.Journal.AddOrder(ctx, o) })
}

func (j *journal) CommitPower(ctx context.Context, c power.Change) error {
	_, err := around(j.point, "commit "+c.Name(), nothing(func() error { return j.Journal.CommitPower(ctx, c) }))
	return err
}

func (j *journal) AddNotice(ctx context.Context, provider string, n cloud.Notice) (bool, error) {
	return around(j.point, "commit notice", func() (bool, error) { return j.Journal.AddNotice(ctx, provider, n) })
}

func (j *journal) CommitFT(ctx context.Context, c ft.Change) error {
	_, err := around(j.point, "commit "+c.Name(), nothing(func() error { return j.Journal.CommitFT(ctx, c) }))
	return err
}

func (j *journal) CommitSession(ctx context.Context, c session.Change) error {
	_, err := around(j.point, "commit "+c.Name(), nothing(func() error { return j.Journal.CommitSession(ctx, c) }))
	return err
}

// InRunner marks Slurm's commands. Readings are one point, however many there are.
func InRunner(r slurm.Runner, p Point) slurm.Runner { return &runner{r, p} }

type runner struct {
	slurm.Runner
	point Point
}

type output struct{ out, err []byte }

func (r *runner) Run(ctx context.Context, name string, args ...string) ([]byte, []byte, error) {
	what := name
	for _, a := range args {
		if a != "-o" {
			what += " " + a
			break
		}
	}
	o, err := around(r.point, what, func() (output, error) {
		out, errOut, err := r.Runner.Run(ctx, name, args...)
		return output{out, errOut}, err
	})
	return o.out, o.err, err
}

// InProvider marks the calls of a provider. What the provider cannot do, the
// marked one does by doing nothing.
func InProvider(inner cloud.Provider, p Point) cloud.Provider { return &provider{inner, p} }

type provider struct {
	inner cloud.Provider
	point Point
}

var (
	_ cloud.Provider     = (*provider)(nil)
	_ cloud.NoticeSource = (*provider)(nil)
	_ cloud.Acknowledger = (*provider)(nil)
	_ cloud.Assigner     = (*provider)(nil)
	_ cloud.Preparer     = (*provider)(nil)
	_ cloud.Consoler     = (*provider)(nil)
	_ cloud.Accountant   = (*provider)(nil)
	_ cloud.Voucher      = (*provider)(nil)
)

func (w *provider) Limits() cloud.Limits { return w.inner.Limits() }

func (w *provider) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	return around(w.point, "launch", func() ([]cloud.Instance, error) { return w.inner.Launch(ctx, r) })
}

func (w *provider) Prepare(ctx context.Context, requests []cloud.LaunchRequest) []error {
	p, ok := w.inner.(cloud.Preparer)
	if !ok {
		return make([]error, len(requests))
	}
	errs, err := around(w.point, "prepare", func() ([]error, error) { return p.Prepare(ctx, requests), nil })
	if err != nil {
		return slices.Repeat([]error{err}, len(requests))
	}
	return errs
}

func (w *provider) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	return around(w.point, "list", func() ([]cloud.Instance, error) { return w.inner.List(ctx, f) })
}

func (w *provider) Terminate(ctx context.Context, ids []string) error {
	_, err := around(w.point, "terminate", nothing(func() error { return w.inner.Terminate(ctx, ids) }))
	return err
}

func (w *provider) Notices(ctx context.Context, handle func(context.Context, cloud.Notice) error) error {
	if s, ok := w.inner.(cloud.NoticeSource); ok {
		return s.Notices(ctx, handle)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (w *provider) Acknowledge(ctx context.Context, n cloud.Notice) error {
	a, ok := w.inner.(cloud.Acknowledger)
	if !ok {
		return nil
	}
	_, err := around(w.point, "acknowledge", nothing(func() error { return a.Acknowledge(ctx, n) }))
	return err
}

func (w *provider) Assign(ctx context.Context, nodes map[string]string) error {
	a, ok := w.inner.(cloud.Assigner)
	if !ok {
		return nil
	}
	_, err := around(w.point, "assign", nothing(func() error { return a.Assign(ctx, nodes) }))
	return err
}

func (w *provider) Account(ctx context.Context) (string, error) {
	a, ok := w.inner.(cloud.Accountant)
	if !ok {
		return "", errors.ErrUnsupported
	}
	return around(w.point, "account", func() (string, error) { return a.Account(ctx) })
}

func (w *provider) Word(ctx context.Context, id string) (string, error) {
	v, ok := w.inner.(cloud.Voucher)
	if !ok {
		return "", errors.ErrUnsupported
	}
	return around(w.point, "word", func() (string, error) { return v.Word(ctx, id) })
}

func (w *provider) Console(ctx context.Context, id string) (string, error) {
	c, ok := w.inner.(cloud.Consoler)
	if !ok {
		return "", nil
	}
	return around(w.point, "console", func() (string, error) { return c.Console(ctx, id) })
}
