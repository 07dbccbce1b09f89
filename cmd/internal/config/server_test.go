package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud/bootstrap"
)

// served is a file with a pool that mounts from another; the other comes last.
const served = `cluster = "c"
[daemon]
listen = "head:9811"
[checkpoint]
strategy = "periodic"
[provider.lon]
kind = "vultr"
region = "lhr"
[provider.ewr]
kind = "vultr"
region = "ewr"
[pool.vhp]
provider = "lon"
nodes = "vhp-[1-4]"
partition = "vultr"
instance_types = ["vhp-8c-16gb-amd"]
image = "os:Debian 12 x64 (bookworm)"
vpc = "e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55"
mounts = [{ kind = "nfs", source = "pool:lon-nfs", target = "/shared" }, { kind = "nfs", source = "nas:/home", target = "/home" }]
[pool.lon-nfs]
provider = "lon"
nodes = "nfs1"
instance_types = ["vc2-2c-4gb"]
image = "os:Debian 12 x64 (bookworm)"
vpc = "e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55"
exports = "/srv/shared"
exports_to = ["10.1.96.0/20"]
end_unused = "48h"
`

func TestServer(t *testing.T) {
	c, err := parse("burst.toml", served)
	if err != nil {
		t.Fatal(err)
	}
	vhp, nfs := c.Pools[0], c.Pools[1]
	if !slices.Equal(vhp.Power.Needs, []string{"nfs1"}) || vhp.Slurm.Server || vhp.Power.EndUnused != 0 {
		t.Errorf("vhp = %+v", vhp.Power)
	}
	want := []bootstrap.Mount{{Kind: "nfs", Source: "server:nfs1:/srv/shared", Target: "/shared"}, {Kind: "nfs", Source: "nas:/home", Target: "/home"}}
	if d := cmp.Diff(want, vhp.Boot.Mounts); d != "" {
		t.Errorf("mounts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(bootstrap.Export{Folder: "/srv/shared", To: []string{"10.1.96.0/20"}}, nfs.Boot.Export); d != "" {
		t.Errorf("export (-want +got):\n%s", d)
	}
	if !nfs.Slurm.Server || nfs.Slurm.Partition != "lon-nfs" || nfs.Power.Partition != "lon-nfs" || nfs.Power.EndUnused != 48*time.Hour || nfs.OnMaintenance != Ignore || nfs.SSH == nil {
		t.Errorf("lon-nfs = %+v", nfs)
	}
}

func TestServerIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"an unknown pool", "pool:lon-nfs", "pool:nowhere", "pool.vhp.mounts.1.source: no pool nowhere has exports"},
		{"a pool without exports", "pool:lon-nfs", "pool:vhp", "no pool vhp has exports"},
		{"a folder of it", "pool:lon-nfs", "pool:lon-nfs:/home", "whose whole folder is mounted"},
		{"the inner form", "pool:lon-nfs", "server:nfs1:/srv", "write a server's host:/path, or pool:NAME"},
		{"of another kind", `kind = "nfs", source = "pool:lon-nfs"`, `kind = "efs", source = "pool:lon-nfs"`, `is mounted with kind = "nfs"`},
		{"another provider", "[pool.lon-nfs]\nprovider = \"lon\"", "[pool.lon-nfs]\nprovider = \"ewr\"", "pool lon-nfs is of provider ewr, and this one of lon"},
		{"another vpc", "vpc = \"e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55\"\nmounts", "vpc = \"00f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55\"\nmounts", "pool.vhp.mounts: pool lon-nfs is in another vpc"},
		{"no vpc", "vpc = \"e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55\"\nexports", "exports", "pool.lon-nfs.vpc: is missing"},
		{"a partition", "exports =", "partition = \"p\"\nexports =", "pool.lon-nfs.partition: is for pools whose nodes run jobs"},
		{"folders for jobs", "exports =", "file_systems = [\"/home\"]\nexports =", "pool.lon-nfs.file_systems: is for pools whose nodes run jobs"},
		{"its partition's name is another's", `partition = "vultr"`, `partition = "lon-nfs"`, "pool.vhp.partition: \"lon-nfs\" is the name of a pool with exports"},
		{"several nodes", `nodes = "nfs1"`, `nodes = "nfs[1-2]"`, "pool.lon-nfs.nodes: names 2 nodes"},
		{"spot", "exports =", "market = \"spot\"\nexports =", "pool.lon-nfs.market: is \"spot\": what it serves would go with the spot instance"},
		{"powered down when idle", "exports =", "suspend_time = \"10m\"\nexports =", "suspend_time: a server of files is not powered down for being idle"},
		{"maintenance", "exports =", "on_maintenance = \"drain\"\nexports =", "on_maintenance: a server of files is not drained"},
		{"to the world", "10.1.96.0/20", "0.0.0.0/0", "pool.lon-nfs.exports_to: \"0.0.0.0/0\" is not a private network"},
		{"a folder of the system", "/srv/shared", "/etc", "export /etc: is of the operating system"},
		{"kept for ever too long", `"48h"`, `"9000h"`, `write whole seconds, from "1s" to "2160h"`},
		{"of a pool that serves nothing", "exports = \"/srv/shared\"\n", "partition = \"x\"\n", "pool.lon-nfs.end_unused: is for pools with exports"},
		{"a server that mounts from itself", "exports =", "mounts = [{ kind = \"nfs\", source = \"pool:lon-nfs\", target = \"/x\" }]\nexports =", "pool.lon-nfs.mounts.1.source: a server of files cannot wait for another"},
		{"user data of the site's", "exports =", "user_data = \"/dev/null\"\nexports =", "pool.lon-nfs.exports: has no effect where the site has user_data of its own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(served, tt.old) {
				t.Fatal(tt.old)
			}
			_, err := parse("burst.toml", strings.Replace(served, tt.old, tt.new, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}
