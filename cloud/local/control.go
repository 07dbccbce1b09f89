package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// controlTimeout bounds how long a Control waits for a launch, or for a death.
const controlTimeout = 10 * time.Second

// Control is the cloud's side: it sees all instances of a folder, of every
// cluster, evicts, kills, and refuses capacity. Any process may use it.
type Control struct{ Dir string } // Config.Dir

// Machine is an instance with what only the cloud knows of it.
type Machine struct {
	cloud.Instance
	PID    int           `json:"pid,omitempty"` // its process; slurmd and all jobs are below it
	Notice *cloud.Notice `json:"notice,omitempty"`
	Acked  time.Time     `json:"acked,omitzero"`   // when the notice was acted upon
	Reason string        `json:"reason,omitempty"` // why it ended
}

// List returns all instances, those that ended within the last hour too, in
// order of launch.
func (c Control) List() ([]Machine, error) {
	s := store{c.Dir}
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var all []Machine
	for _, id := range ids {
		r, ok, err := s.record(id)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		m, err := s.machine(r)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b Machine) int { return a.Launched.Compare(b.Launched) })
	return all, nil
}

func (s store) machine(r record) (m Machine, err error) {
	if m.Instance, err = s.look(r); err != nil {
		return m, err
	}
	if m.Acked, err = s.acked(r.ID); err != nil {
		return m, err
	}
	var p process
	if _, err := readJSON(s.path(r.ID, machineFile), &p); err != nil {
		return m, err
	}
	m.PID = p.PID
	var n cloud.Notice
	if ok, err := readJSON(s.path(r.ID, noticeFile), &n); err != nil {
		return m, err
	} else if ok {
		m.Notice = &n
	}
	var e end
	if _, err := readJSON(s.path(r.ID, endedFile), &e); err != nil {
		return m, err
	}
	m.Reason = e.Reason
	return m, nil
}

// find returns the live instance of that id or node name.
func (c Control) find(name string) (Machine, error) {
	all, err := c.List()
	if err != nil {
		return Machine{}, err
	}
	ended := false
	for _, m := range slices.Backward(all) { // a node's latest instance
		if m.ID != name && m.Node != name {
			continue
		}
		if m.State.Live() {
			return m, nil
		}
		ended = true
	}
	if ended {
		return Machine{}, fmt.Errorf("the instance of %s has ended", name)
	}
	return Machine{}, fmt.Errorf("no instance has the id or node name %q", name)
}

// Evict announces that the instance with that id or node name goes after
// lead. Its machine is killed then, whatever still runs on it.
func (c Control) Evict(idOrNode string, lead time.Duration) error {
	if lead < 0 {
		return fmt.Errorf("evicting %s: the lead time %s is negative", idOrNode, lead)
	}
	m, err := c.find(idOrNode)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		now := time.Now()
		err = store{c.Dir}.announce(ctx, cloud.Notice{
			Instance: m.ID, Kind: cloud.SpotInterruption, Deadline: now.Add(lead), Received: now, Source: "local",
		})
	}
	if err != nil {
		return fmt.Errorf("evicting %s: %w", idOrNode, err)
	}
	return nil
}

// Announce gives a notice that is no interruption, or takes one back, of the
// instance with that id or node name: nothing else happens to it.
func (c Control) Announce(idOrNode string, n cloud.Notice) error {
	m, err := c.find(idOrNode)
	if err == nil && n.Kind == cloud.SpotInterruption {
		err = errors.New("an interruption is for Evict")
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		n.Instance, n.Received, n.Source = m.ID, time.Now(), "local"
		err = store{c.Dir}.tell(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("announcing %s of %s: %w", n.Kind, idOrNode, err)
	}
	return nil
}

// Kill ends an instance without a notice, and returns when it is gone.
func (c Control) Kill(idOrNode string) error {
	m, err := c.find(idOrNode)
	if err == nil {
		s := store{c.Dir}
		if err = s.terminate(m.ID, "killed by its admin"); err == nil {
			err = s.awaitEnd(m.ID)
		}
	}
	if err != nil {
		return fmt.Errorf("killing %s: %w", idOrNode, err)
	}
	return nil
}

// awaitEnd waits for the end of an instance that must end.
func (s store) awaitEnd(id string) error {
	for deadline := time.Now().Add(controlTimeout); ; time.Sleep(5 * time.Millisecond) {
		r, ok, err := s.record(id)
		if err != nil || !ok {
			return err
		}
		i, err := s.look(r)
		if err != nil || !i.State.Live() {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("instance %s still lives after %s", id, controlTimeout)
		}
	}
}
