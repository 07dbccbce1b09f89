package vultrtest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// machine is an instance of cloud compute or of bare metal.
type machine struct {
	Machine
	status string // "suspended" where a test has said so
	ended  time.Time
	halted time.Time // when it was asked to stop
	cut    bool      // by Vultr
}

// Machine is what a test may see of one.
type Machine struct {
	ID       string
	Metal    bool
	Plan     string
	Label    string
	Hostname string
	Tags     []string
	UserData string // decoded
	Addr     string
	Created  time.Time
	Asked    map[string]any // the whole request
	Halted   bool
}

// Machines are those that exist, in the order of their creation.
func (c *Cloud) Machines() []Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Machine, len(c.machines))
	for i, m := range c.machines {
		all[i] = m.Machine
		all[i].Tags = slices.Clone(m.Tags)
	}
	return all
}

// Change lets a test change a machine behind everybody's back.
func (c *Cloud) Change(id string, change func(*Machine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.ID == id {
			change(&m.Machine)
		}
	}
}

// Suspend does what Vultr does about abuse and unpaid bills.
func (c *Cloud) Suspend(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.ID == id {
			m.status = "suspended"
		}
	}
}

func (c *Cloud) create(body []byte, metal bool) reply {
	var asked map[string]any
	if err := json.Unmarshal(body, &asked); err != nil {
		return no(http.StatusBadRequest, "Invalid JSON.")
	}
	text := func(key string) string { s, _ := asked[key].(string); return s }
	plan := text("plan")
	if !slices.Contains(planIDs(metal), plan) || text("region") != Region {
		return no(http.StatusBadRequest, "Invalid plan chosen.")
	}
	images := 0
	for _, key := range []string{"os_id", "snapshot_id", "image_id"} {
		if asked[key] != nil {
			images++
		}
	}
	if images != 1 {
		return no(http.StatusBadRequest, "Invalid OS: exactly one of os_id, snapshot_id and image_id must be given.")
	}
	data, err := base64.StdEncoding.DecodeString(text("user_data"))
	if err != nil {
		return no(http.StatusBadRequest, "Invalid user_data: it must be base64 encoded.")
	}
	var tags []string
	list, _ := asked["tags"].([]any)
	for _, t := range list {
		s, _ := t.(string)
		tags = append(tags, s)
	}
	if room, limited := c.capacity[plan]; limited {
		if room <= 0 {
			return no(http.StatusBadRequest, "Invalid plan chosen.") // as of a plan that a region has no longer
		}
		c.capacity[plan]--
	}
	c.made++
	m := &machine{Machine: Machine{ID: newID(), Metal: metal, Plan: plan, Label: text("label"), Hostname: text("hostname"), Tags: tags,
		UserData: string(data), Addr: c.options.Addr(c.made), Created: time.Now(), Asked: asked}}
	c.machines = append(c.machines, m)
	return reply{http.StatusAccepted, object{objectName(metal): c.view(m)}}
}

func objectName(metal bool) string {
	if metal {
		return "bare_metal"
	}
	return "instance"
}

// view is a machine as the API shows it now. Cloud compute is "active" a while
// before it runs: stopped and locked, as the real one is.
func (c *Cloud) view(m *machine) object {
	age, boot := time.Since(m.Created), c.options.Boot
	if m.Metal {
		boot = c.options.Metal
	}
	status, power, server, addr := "pending", "running", "none", "0.0.0.0"
	if age >= boot/2 {
		status, power, server, addr = "active", "stopped", "locked", m.Addr
	}
	if m.Metal && age < boot {
		status, power, addr = "pending", "stopped", "0.0.0.0"
	}
	if age >= boot {
		status, power, server, addr = "active", "running", "ok", m.Addr
	}
	if m.Halted && time.Since(m.halted) >= c.options.Halt {
		power = "stopped"
	}
	if m.status != "" {
		status = m.status
	}
	v := object{
		"id": m.ID, "os": OSName, "plan": m.Plan, "region": Region, "label": m.Label, "hostname": m.Hostname, "tags": append([]string{}, m.Tags...),
		"main_ip": addr, "status": status, "power_status": power, "date_created": m.Created.Add(-c.options.Age).UTC().Format("2006-01-02T15:04:05+00:00"),
		"features": []string{}, "default_password": "not-for-logs", "user_scheme": m.Asked["user_scheme"],
	}
	if m.Metal {
		if power != "stopped" {
			delete(v, "power_status") // not all answers of the real one have it
		}
		v["ram"], v["disk"], v["cpu_count"], v["mac_address"] = "32768 MB", "2x 480GB SSD", 6, 2199756823533
		return v
	}
	v["server_status"], v["ram"], v["disk"], v["vcpu_count"], v["internal_ip"], v["vpcs"] = server, 16384, 350, 8, "", []any{}
	if ids, _ := m.Asked["attach_vpc"].([]any); len(ids) > 0 && status == "active" {
		octets := strings.Split(m.Addr, ".")
		inside := "192.168." + strings.Join(octets[len(octets)-2:], ".")
		if c.options.Flat {
			inside = m.Addr
		}
		v["internal_ip"], v["vpcs"] = inside, []any{object{"id": ids[0], "subnet": inside}}
	}
	return v
}

func (c *Cloud) list(r *http.Request, metal bool) reply {
	var all []any
	for _, m := range c.machines {
		if m.Metal == metal && time.Since(m.Created) >= c.options.Lag {
			all = append(all, c.view(m))
		}
	}
	for _, m := range c.past {
		if m.Metal == metal && time.Since(m.ended) < c.options.Linger {
			all = append(all, c.view(m))
		}
	}
	name := "instances"
	if metal {
		name = "bare_metals"
	}
	return c.page(r, name, all)
}

func (c *Cloud) at(id string, metal bool) int {
	return slices.IndexFunc(c.machines, func(m *machine) bool { return m.ID == id && m.Metal == metal })
}

func unknown(metal bool) reply {
	if metal {
		return no(http.StatusNotFound, "Server not found")
	}
	return no(http.StatusNotFound, "Instance not found")
}

func (c *Cloud) show(id string, metal bool) reply {
	i := c.at(id, metal)
	if i < 0 {
		return unknown(metal)
	}
	return reply{http.StatusOK, object{objectName(metal): c.view(c.machines[i])}}
}

func (c *Cloud) change(id string, body []byte, metal bool) reply {
	i := c.at(id, metal)
	if i < 0 {
		return unknown(metal)
	}
	var asked struct {
		Tags  *[]string `json:"tags"`
		Label *string   `json:"label"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return no(http.StatusBadRequest, "Invalid JSON.")
	}
	if asked.Tags != nil {
		c.machines[i].Tags = *asked.Tags
	}
	if asked.Label != nil {
		c.machines[i].Label = *asked.Label
	}
	return reply{http.StatusAccepted, object{objectName(metal): c.view(c.machines[i])}}
}

func (c *Cloud) destroy(id string, metal bool) reply {
	i := c.at(id, metal)
	if i < 0 {
		return unknown(metal)
	}
	m := c.machines[i]
	if time.Since(m.Created) < c.options.Locked {
		return no(http.StatusInternalServerError, "Unable to destroy server: Unable to remove VM: Server is currently locked")
	}
	m.ended = time.Now()
	c.machines, c.past = slices.Delete(c.machines, i, i+1), append(c.past, m)
	if _, limited := c.capacity[m.Plan]; limited {
		c.capacity[m.Plan]++
	}
	return reply{http.StatusNoContent, nil}
}
