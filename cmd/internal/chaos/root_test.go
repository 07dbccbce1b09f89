package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// journalDisk is the size of the disk under the journal.
const journalDisk = 64 << 20

// ownDisk puts the journal on a small disk of its own, which undo takes away;
// burstd is restarted.
func (w *world) ownDisk() (undo func() error, err error) {
	state := filepath.Join(w.Dir, "state")
	if err := w.StopBurstd(); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, fmt.Sprint("size=", journalDisk)); err != nil {
		return nil, fmt.Errorf("mounting a disk for the journal: %w", err)
	}
	return func() error { return syscall.Unmount(state, 0) }, w.StartBurstd(w.t.Context())
}

// fill fills the journal's disk for a while.
func (w *world) fill(e event) bool {
	filler := filepath.Join(w.Dir, "state", fmt.Sprint("filler-", e.at))
	full := func() error {
		if err := os.WriteFile(filler, make([]byte, 2*journalDisk), 0o600); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the disk is not full: %w", err)
		}
		w.say("the disk is full for %s", e.last)
		return nil
	}
	return w.during(e, full, func() error { return os.Remove(filler) })
}

// cut takes the network of one instance, or of all, away for a while.
func (w *world) cut(e event) bool {
	var veths []string
	if e.kind == cutNode {
		m, ok := w.machine(e.pick)
		if !ok {
			return false
		}
		veth, err := w.veth(m.ID)
		if err != nil {
			w.say("%s: %v", e.kind, err)
			return false
		}
		w.say("%s (%s) is cut off for %s", m.ID, m.Node, e.last)
		veths = []string{veth}
	} else {
		all, err := w.Control.List()
		if err != nil {
			w.say("%s: %v", e.kind, err)
		}
		for _, m := range all {
			if veth, err := w.veth(m.ID); err == nil && m.State.Live() {
				veths = append(veths, veth)
			}
		}
		if len(veths) == 0 {
			return false
		}
		w.say("%d instances are cut off for %s", len(veths), e.last)
	}
	set := func(state string) error {
		cut := 0
		var last error
		for _, v := range veths {
			out, err := exec.Command("ip", "link", "set", v, state).CombinedOutput()
			if err != nil {
				last = fmt.Errorf("ip link set %s %s: %w: %s", v, state, err, out)
				continue // it is gone with its instance
			}
			cut++
		}
		if cut == 0 && state == "down" {
			return last
		}
		return nil
	}
	return w.during(e, func() error { return set("down") }, func() error { return set("up") })
}

// veth is the host's end of an instance's cable.
func (w *world) veth(id string) (string, error) {
	text, err := os.ReadFile(filepath.Join(w.Dir, "cloud", "instances", id, "instance.json"))
	if err != nil {
		return "", err
	}
	var record struct {
		Network struct {
			Veth string `json:"veth"`
		} `json:"network"`
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return "", err
	}
	if record.Network.Veth == "" {
		return "", fmt.Errorf("instance %s has no network of its own", id)
	}
	return record.Network.Veth, nil
}
