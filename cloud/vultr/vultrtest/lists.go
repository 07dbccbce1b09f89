package vultrtest

import (
	"encoding/json"
	"net/http"
	"time"
)

type sshKey struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Key     string `json:"ssh_key"`
	Created string `json:"date_created"`
}

// Keys are the SSH keys of the account: names and texts.
func (c *Cloud) Keys() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for _, k := range c.keys {
		all[k.Name] = k.Key
	}
	return all
}

// AddKey gives the account an SSH key, and returns its id.
func (c *Cloud) AddKey(name, key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := sshKey{newID(), name, key, time.Now().UTC().Format(time.RFC3339)}
	c.keys = append(c.keys, k)
	return k.ID
}

func (c *Cloud) addKey(body []byte) reply {
	var k sshKey
	if err := json.Unmarshal(body, &k); err != nil || k.Name == "" || k.Key == "" {
		return no(http.StatusBadRequest, "Invalid SSH key.")
	}
	k.ID, k.Created = newID(), time.Now().UTC().Format(time.RFC3339)
	c.keys = append(c.keys, k)
	return reply{http.StatusCreated, object{"ssh_key": k}}
}

func systems() []any {
	return []any{
		object{"id": OS, "name": OSName, "arch": "x64", "family": "debian"},
		object{"id": 2284, "name": "Ubuntu 24.04 LTS x64", "arch": "x64", "family": "ubuntu"},
		object{"id": 1869, "name": "Rocky Linux 9 x64", "arch": "x64", "family": "rockylinux"},
	}
}

// computePlans are as "GET /v2/plans" has them.
func computePlans() []any {
	elsewhere := []string{Region, "ewr", "sao"}
	return []any{
		object{"id": Plan, "vcpu_count": 8, "ram": 16384, "disk": 350, "disk_count": 1, "bandwidth": 8192, "monthly_cost": 96, "hourly_cost": 0.132,
			"type": "vhp", "locations": elsewhere, "location_cost": object{"sao": object{"monthly_cost": 144, "hourly_cost": 0.197}}},
		object{"id": Plan2, "vcpu_count": 2, "ram": 4096, "disk": 80, "disk_count": 1, "bandwidth": 3072, "monthly_cost": 20, "hourly_cost": 0.027,
			"type": "vc2", "locations": elsewhere, "location_cost": []any{}},
		object{"id": GPUPlan, "vcpu_count": 6, "ram": 61440, "disk": 700, "disk_count": 1, "bandwidth": 8192, "monthly_cost": 1314,
			"type": "vcg", "gpu_vram_gb": 40, "gpu_type": "NVIDIA_A100", "locations": []string{"ewr"}},
		object{"id": Unlisted, "vcpu_count": 24, "ram": 122880, "disk": 1400, "disk_count": 1, "bandwidth": 10240, "monthly_cost": 1250,
			"type": "vdm", "gpu_brand": "nvidia", "locations": []string{}},
		object{"id": Diskless, "vcpu_count": 2, "ram": 8192, "disk": 0, "disk_count": 0, "bandwidth": 5120, "monthly_cost": 55.48, "hourly_cost": 0.076,
			"type": "vx1", "storage_type": "block_storage", "locations": elsewhere},
	}
}

// metalPlans are as "GET /v2/plans-metal" has them.
func metalPlans() []any {
	return []any{
		object{"id": Metal, "physical_cpus": 1, "cpu_count": 6, "cpu_cores": 6, "cpu_threads": 12, "cpu_model": "E-2286G", "cpu_mhz": 4000, "ram": 32768,
			"disk": 960, "disk_count": 2, "bandwidth": 10240, "monthly_cost": 185, "hourly_cost": 0.253, "type": "SSD", "locations": []string{Region}},
	}
}

func planIDs(metal bool) []string {
	if metal {
		return []string{Metal}
	}
	return []string{Plan, Plan2, GPUPlan, Unlisted, Diskless}
}

// availability lists the plans that the region has room for.
func (c *Cloud) availability(region, kind string) reply {
	have := []string{}
	for _, metal := range []bool{false, true} {
		if kind == "vbm" && !metal {
			continue
		}
		for _, id := range planIDs(metal) {
			if room, limited := c.capacity[id]; region == Region && id != GPUPlan && (id != Unlisted || kind != "all") && (!limited || room > 0) {
				have = append(have, id)
			}
		}
	}
	return reply{http.StatusOK, object{"available_plans": have}}
}
