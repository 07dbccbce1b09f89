package vultrtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

type snapshot struct {
	ID          string `json:"id"`
	Created     string `json:"date_created"`
	Description string `json:"description"`
	Size        int64  `json:"size"`
	Status      string `json:"status"`
	OS          int    `json:"os_id"`

	ready time.Time // of one that was made of an instance
	live  bool      // of one that was not stopped
	hard  bool      // of one that was stopped by Vultr
}

// Torn are the descriptions of the snapshots that were made of an instance that still ran.
func (c *Cloud) Torn() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.snapshots {
		if s.live {
			all = append(all, s.Description)
		}
	}
	return all
}

// Unplugged are the descriptions of the snapshots of instances that Vultr has halted, which is a
// power cut.
func (c *Cloud) Unplugged() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.snapshots {
		if s.hard {
			all = append(all, s.Description)
		}
	}
	return all
}

// AddSnapshot gives the account a snapshot of a time and status ("pending",
// "complete"), and returns its id.
func (c *Cloud) AddSnapshot(description, status string, at time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := snapshot{ID: newID(), Created: at.UTC().Format(time.RFC3339), Description: description, Size: 42 << 30, Status: status, OS: OS}
	c.snapshots = append(c.snapshots, s)
	return s.ID
}

func (c *Cloud) showSnapshots(r *http.Request, id string) reply {
	for i, s := range c.snapshots {
		if s.Status == "pending" && !s.ready.IsZero() && !time.Now().Before(s.ready) {
			c.snapshots[i].Status, c.snapshots[i].Size = "complete", 42<<30
		}
	}
	if id == "" {
		return c.page(r, "snapshots", anys(c.snapshots))
	}
	for _, s := range c.snapshots {
		if s.ID == id {
			return reply{http.StatusOK, object{"snapshot": s}}
		}
	}
	return no(http.StatusNotFound, "Invalid snapshot")
}

// Snapshots are the ids and descriptions of those that the account has.
func (c *Cloud) Snapshots() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for _, s := range c.snapshots {
		all[s.ID] = s.Description
	}
	return all
}

func (c *Cloud) addSnapshot(body []byte) reply {
	var asked struct {
		Instance    string `json:"instance_id"`
		Description string `json:"description"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return no(http.StatusBadRequest, "Invalid JSON.")
	}
	i := c.at(asked.Instance, false)
	if i < 0 {
		return unknown(false)
	}
	m := c.machines[i]
	now := time.Now()
	asked.Description = asked.Description[:min(len(asked.Description), 255)] // without a word
	s := snapshot{ID: newID(), Created: now.UTC().Format(time.RFC3339), Description: asked.Description, Status: "pending", OS: OS, ready: now.Add(c.options.Snapshot)}
	s.live = !m.Halted || now.Sub(m.halted) < c.options.Halt
	s.hard = m.cut
	c.snapshots = append(c.snapshots, s)
	return reply{http.StatusCreated, object{"snapshot": s}}
}

func (c *Cloud) deleteSnapshot(id string) reply {
	i := slices.IndexFunc(c.snapshots, func(s snapshot) bool { return s.ID == id })
	if i < 0 {
		return no(http.StatusNotFound, "Invalid snapshot")
	}
	c.snapshots = slices.Delete(c.snapshots, i, i+1)
	return reply{http.StatusNoContent, nil}
}

func (c *Cloud) halt(id string) reply {
	i := c.at(id, false)
	if i < 0 {
		return unknown(false)
	}
	c.machines[i].stop(true)
	return reply{http.StatusNoContent, nil}
}

// Off is an instance that shuts itself down.
func (c *Cloud) Off(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.at(id, false); i >= 0 {
		c.machines[i].stop(false)
	}
}

func (m *machine) stop(cut bool) {
	if !m.Halted {
		m.Halted, m.halted, m.cut = true, time.Now(), cut
	}
}
