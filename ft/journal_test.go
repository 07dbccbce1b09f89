package ft_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/notice"
)

// runner is Slurm as one life sees it.
type runner struct{ l *life }

func (r runner) Run(ctx context.Context, name string, args ...string) (out, errOut []byte, err error) {
	what := strings.Join(append([]string{name}, args[:min(2, len(args))]...), " ")
	if err := r.l.point("before " + what); err != nil {
		return nil, nil, err
	}
	w := r.l.w
	w.mu.Lock()
	w.running++
	w.most = max(w.most, w.running)
	w.mu.Unlock()
	time.Sleep(2 * time.Millisecond) // what any command takes, and more than a clock's tick
	out, errOut, err = w.Controller.Run(ctx, name, args...)
	w.mu.Lock()
	w.running--
	if err != nil && len(errOut) == 0 {
		errOut = []byte(w.refuse)
	}
	w.mu.Unlock()
	if err := r.l.point("after " + what); err != nil {
		return nil, nil, err
	}
	return out, errOut, err
}

// provider is the cloud as one life sees it.
type provider struct {
	*cloudtest.Fake
	l *life
}

func (p provider) Acknowledge(ctx context.Context, n cloud.Notice) error {
	if err := p.l.point("before acknowledge"); err != nil {
		return err
	}
	err := p.Fake.Acknowledge(ctx, n)
	return errors.Join(err, p.l.point("after acknowledge"))
}

// journal is the store as one life sees it.
type journal struct{ l *life }

func (j journal) write(name string, do func()) error {
	if err := j.l.point("before " + name); err != nil {
		return err
	}
	j.l.w.mu.Lock()
	do()
	j.l.w.mu.Unlock()
	return j.l.point("after " + name)
}

func (j journal) AddNotice(_ context.Context, provider string, n cloud.Notice) (fresh bool, err error) {
	err = j.write("add", func() {
		w, key := j.l.w, noticeKey{n.Instance, n.Kind}
		old := w.notices[key]
		rec := w.records[key]
		effect := rec.Add(n, old.Stage == ft.Acked)
		w.records[key] = rec
		if old.Stage == "" || effect == notice.Opened && old.Stage == ft.Acked {
			old = ft.Notice{Notice: n, Provider: provider, Stage: ft.Heard}
		}
		next := rec.Next()
		old.Deadline, old.Action, old.Event, old.Cancelled = next.Deadline, next.Action, next.ID, next.Cancelled
		old.Source, old.Received = rec.Source, rec.Received
		w.notices[key] = old
		fresh = effect != notice.Nothing
	})
	return fresh, err
}

func (j journal) NoticeOf(_ context.Context, instance string, kind cloud.NoticeKind) (ft.Notice, error) {
	j.l.w.mu.Lock()
	defer j.l.w.mu.Unlock()
	return j.l.w.notices[noticeKey{instance, kind}], nil
}

func (j journal) LoadFT(context.Context) (st ft.State, err error) {
	w := j.l.w
	if w.loaded != nil {
		defer w.loaded()
	}
	w.mu.Lock()
	defer w.mu.Unlock() // before loaded is called
	for _, n := range w.notices {
		if n.Stage != ft.Acked {
			st.Notices = append(st.Notices, n)
		}
	}
	open := map[string]bool{}
	attempt := func(e ft.Eviction) string { return fmt.Sprint(e.Job, e.Restarts, e.Started) }
	for k, e := range w.evictions {
		if e.Kind != ft.Died && w.notices[k.noticeKey].Stage != ft.Acked {
			open[attempt(e)] = true
		}
	}
	for k, e := range w.evictions {
		if e.Kind != ft.Died && (w.notices[k.noticeKey].Stage != ft.Acked || open[attempt(e)]) {
			st.Evictions = append(st.Evictions, e)
		}
	}
	return st, nil
}

func (j journal) Moved(_ context.Context, since time.Time) (all []ft.Eviction, err error) {
	w := j.l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.evictions {
		if e.Ending == ft.Moved && !e.Ended.Before(since) {
			all = append(all, e)
		}
	}
	return all, nil
}

func (j journal) CommitFT(_ context.Context, c ft.Change) error {
	defer func() {
		if j.l.w.committed != nil {
			j.l.w.committed(c)
		}
	}()
	return j.write(c.Name(), func() {
		w := j.l.w
		for _, n := range c.Notices {
			key := noticeKey{n.Instance, n.Kind}
			old := w.notices[key] // what follows is as the store does it
			switch {
			case n.Stage == ft.Acked && n.Node == "" && old.Node == "":
				delete(w.notices, key)
				delete(w.records, key)
				continue
			case n.Stage == ft.Acked && n.Cancelled != old.Cancelled:
				continue
			}
			n.Notice, n.Node = old.Notice, cmp.Or(n.Node, old.Node)
			w.notices[key] = n
		}
		for _, e := range c.Evictions {
			w.evictions[evictionKey{noticeKey{e.Instance, e.Kind}, e.Job}] = e
		}
		w.events = append(w.events, c.Events...)
	})
}

func (j journal) NodeOf(_ context.Context, instance string) (string, error) {
	j.l.w.mu.Lock()
	defer j.l.w.mu.Unlock()
	return j.l.w.nodes[instance], nil
}
