package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/burst-hpc/burst/cloud"
)

// told is the state file: the maintenances that burstd may have heard of, and
// has not been told the end of. A
// reboot of the instance, which most of them are, also restarts the agent,
// and the event is gone afterwards: burstd is told so.
type told struct {
	Instance string         `json:"instance"` // an image may carry the file of another
	Events   []cloud.Notice `json:"events"`
}

// remember writes the file. Without it only a restart at the wrong moment
// loses something: the agent goes on.
func (a *Agent) remember(k *known) {
	if a.State == "" {
		return
	}
	t := told{Instance: a.instance, Events: []cloud.Notice{}}
	for _, w := range k.all {
		t.Events = append(t.Events, w.notice)
	}
	if err := replace(a.State, t); err != nil {
		a.Log.Warn("the state file cannot be written: after a restart, burstd may not be told that a maintenance is over", "error", err)
	}
}

// replace writes v where a reader, and a crash, see all of it or the old text.
func replace(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// recall reads the file. The run before this one may have ended between the
// writing and the telling, so that burstd is told of all of it again.
func (a *Agent) recall(k *known) {
	if a.State == "" {
		return
	}
	text, err := os.ReadFile(a.State)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var t told
	if err == nil {
		t, err = parseTold(text)
	}
	if err != nil {
		a.Log.Warn("the state file cannot be read: it is written anew", "error", err)
		return
	}
	if t.Instance != a.instance {
		return
	}
	for _, n := range t.Events {
		k.all[keyOf(n)] = &word{notice: n, unheard: true}
	}
}

func parseTold(text []byte) (told, error) {
	var t told
	if err := json.Unmarshal(text, &t); err != nil {
		return told{}, err
	}
	for i, n := range t.Events {
		if n.Kind != cloud.Maintenance || n.Event == "" {
			return told{}, errors.New("an event in it is no maintenance")
		}
		t.Events[i].Deadline = n.Deadline.UTC()
	}
	return t, nil
}
