package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// retryNotice is the pause before a notice that was not handled is given again.
const retryNotice = 200 * time.Millisecond

// Notices implements cloud.NoticeSource. A file that cannot be read ends it
// with an error, after the others have been given.
func (p *Provider) Notices(ctx context.Context, handle func(context.Context, cloud.Notice) error) error {
	dir := filepath.Join(p.store.dir, "notices")
	changes := watch(dir)
	defer changes.stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	over := map[string]bool{}
	for {
		open, err := p.deliver(ctx, dir, handle)
		if err != nil {
			return fmt.Errorf("notices of the local provider: %w", err)
		}
		var retry <-chan time.Time
		if open {
			retry = time.After(retryNotice)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes.c:
		case <-look.C:
			p.buryDead(over)
		case <-retry:
		}
	}
}

// lookEvery is how often Notices looks for machines that have died without a word.
const lookEvery = 2 * time.Second

// buryDead brings to an end the instances whose process has died, which tells of
// them. Those that are over it notes, and reads no more. What cannot be read List says.
func (p *Provider) buryDead(over map[string]bool) {
	ids, err := p.store.ids()
	if err != nil {
		return
	}
	maps.DeleteFunc(over, func(id string, _ bool) bool { return !slices.Contains(ids, id) })
	for _, id := range ids {
		if over[id] {
			continue
		}
		if over[id], err = p.store.has(id, endedFile); err != nil || over[id] {
			continue
		}
		var m process
		begun, err := readJSON(p.store.path(id, machineFile), &m)
		if err != nil || !begun {
			continue
		}
		if alive, err := m.alive(); err != nil || alive {
			continue
		}
		if r, ok, err := p.store.record(id); err == nil && ok {
			_, _ = p.store.look(r)
		}
	}
}

// changed tells that an instance which has had a process has ended, unless
// Terminate has been asked for it, whose caller knows.
func (s store) changed(id string) error {
	begun, err := s.has(id, machineFile)
	if err != nil || !begun || s.reason(id) == byTerminate {
		return err
	}
	n := cloud.Notice{Instance: id, Kind: cloud.StateChange, Action: string(cloud.Terminated), Received: time.Now(), Source: "local"}
	return writeJSON(s.noticePath(n), n)
}

// deliver gives each notice once and says whether one is still to be handled.
func (p *Provider) deliver(ctx context.Context, dir string, handle func(context.Context, cloud.Notice) error) (open bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	// Those that were late at an instance's end hear first why it ended.
	slices.SortStableFunc(entries, func(a, b os.DirEntry) int {
		return cmp.Compare(strings.Count(a.Name(), endSuffix), strings.Count(b.Name(), endSuffix))
	})
	var bad error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		path := filepath.Join(dir, e.Name())
		var n cloud.Notice
		ok, err := readJSON(path, &n)
		if err == nil && ok && (n.Kind == "" || p.store.noticePath(n) != path) {
			err = fmt.Errorf("reading %s: it lacks its kind, or is not of that instance", path)
		}
		if err != nil {
			bad = errors.Join(bad, err)
			continue
		}
		if !ok {
			continue
		}
		given := n
		given.Received = time.Now()
		if handle(ctx, given) != nil {
			open = true
			continue
		}
		if err := p.store.handled(ctx, n); err != nil {
			return false, err
		}
	}
	return open, bad
}

// handled forgets a notice, unless another has taken its place meanwhile.
func (s store) handled(ctx context.Context, n cloud.Notice) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var now cloud.Notice
	path := s.noticePath(n)
	ok, err := readJSON(path, &now)
	same := now.Kind == n.Kind && now.Event == n.Event && now.Cancelled == n.Cancelled && now.Deadline.Equal(n.Deadline)
	if err != nil || !ok || !same {
		return err
	}
	return os.Remove(path)
}

// announce writes a notice: first for the machine, which then ends at the
// deadline come what may, then for whoever calls Notices.
func (s store) announce(ctx context.Context, n cloud.Notice) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := writeJSON(s.path(n.Instance, noticeFile), n); err != nil {
		return err
	}
	return writeJSON(s.noticePath(n), n)
}

// tell writes a notice for whoever calls Notices. One that nobody has taken
// yet is kept for a while, not replaced.
func (s store) tell(ctx context.Context, n cloud.Notice) error {
	path := s.noticePath(n)
	for {
		unlock, err := s.lock(ctx)
		if err != nil {
			return err
		}
		var waiting cloud.Notice
		ok, err := readJSON(path, &waiting)
		if err == nil && !ok {
			err = writeJSON(path, n)
		}
		unlock()
		if err != nil || !ok {
			return err
		}
		select {
		case <-time.After(retryNotice / 4):
		case <-ctx.Done():
			return fmt.Errorf("the notice before it is not taken: %w", ctx.Err())
		}
	}
}

// acked reads when the instance's notice was acknowledged; zero if it was not.
func (s store) acked(id string) (time.Time, error) {
	var t time.Time
	data, err := os.ReadFile(s.path(id, ackFile))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		if err = json.Unmarshal(data, &t); err != nil {
			err = fmt.Errorf("reading %s: %w", s.path(id, ackFile), err)
		}
	}
	return t, err
}
