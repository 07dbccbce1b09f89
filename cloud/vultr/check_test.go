package vultr_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// found is a report in lines.
func found(all []vultr.Finding) []string {
	var lines []string
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("%s %s: %s", f.Level, f.Subject, f.Text))
	}
	return lines
}

func TestCheck(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	c.AddKey("admin", "ssh-rsa AAAA admin")
	c.SetCapacity(vultrtest.Plan2, 0)
	file := filepath.Join(t.TempDir(), "id.pub")
	if err := os.WriteFile(file, []byte(ed25519), 0o600); err != nil {
		t.Fatal(err)
	}
	nobodys := "00000000-8e57-4a0b-b9a0-3a3f4d4b7c55"
	p := over(t, c, func(v *vultr.Config) {
		v.Pools = map[string]vultr.Pool{
			"good": {VPC: vultrtest.VPC, FirewallGroup: vultrtest.Firewall, StartupScript: vultrtest.Script, SSHKeys: []string{"admin"}, SSHPublicKey: file},
			"bad":  {VPC: nobodys, FirewallGroup: nobodys, StartupScript: nobodys, SSHKeys: []string{"nobody"}},
		}
	})
	got := found(p.Check(t.Context(), []vultr.CheckPool{
		{Name: "good", Plans: []string{vultrtest.Plan, vultrtest.Plan2, vultrtest.Unlisted}, Image: vultrtest.OSName},
		{Name: "bad", Plans: []string{"c6i.large", vultrtest.GPUPlan, vultrtest.Metal}, Image: "snapshot:none"},
	}))
	want := []string{
		"ok account: hpc@example.org in lhr at " + c.URL(),
		"ok pool good, plan vhp-8c-16gb-amd: lhr has it, at 0.132 USD per begun hour",
		"warning pool good, plan vc2-2c-4gb: none is left in lhr now",
		"ok pool good, plan vcg-a40-24c-120g-48vram: lhr has it, at 1.712 USD per begun hour",
		"ok pool good, image: Debian 12 x64 (bookworm) is operating system 2136",
		"ok pool good, SSH keys: SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU will be given to the account by the first launch",
		`ok pool good, firewall_group: "nodes", 3 rules`,
		`ok pool good, startup_script: "first boot"`,
		"ok pool good, vpc: 192.168.0.0/16 in lhr",
		`wrong pool bad, plan c6i.large: Vultr has no plan "c6i.large": its console and "vultr-cli plans list" show them`,
		"warning pool bad, plan vcg-a100-6c-60gb: plan vcg-a100-6c-60gb is not in lhr now: Vultr lists it for ewr; if that lasts, take another plan, or a provider of another region",
		"wrong pool bad, plan vbm-6c-32gb: vbm-6c-32gb is bare metal, which Vultr puts into no VPC at its launch: remove vpc, or take a plan of cloud compute",
		"wrong pool bad, image: this account has no snapshot none",
		`wrong pool bad, SSH keys: the account has no SSH key "nobody", by id or name`,
		"wrong pool bad, firewall_group: the account has no such thing: asking for firewall group " + nobodys + ": Invalid firewall_group",
		"wrong pool bad, startup_script: the account has no such thing: asking for startup script " + nobodys + ": Invalid startup_script",
		"wrong pool bad, vpc: the account has no such thing: asking for VPC " + nobodys + ": Invalid vpc",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
	for _, call := range c.Calls() {
		if !strings.HasPrefix(call.Op, http.MethodGet) {
			t.Errorf("the check did %s", call.Op)
		}
	}
	elsewhere := over(t, c, func(v *vultr.Config) { v.Region, v.Pools = "ewr", map[string]vultr.Pool{"far": {VPC: vultrtest.VPC}} })
	all := found(elsewhere.Check(t.Context(), []vultr.CheckPool{{Name: "far", Image: "os:2136"}}))
	if last := all[len(all)-1]; last != "wrong pool far, vpc: VPC "+vultrtest.VPC+" is in lhr, and the provider in ewr" {
		t.Errorf("of a VPC of another region it says %q", last)
	}
}

// A key whose user may launch instances and not end them, as Vultr's permissions can have it.
func TestCheckRights(t *testing.T) {
	t.Parallel()
	noEnd := `wrong permissions: the key's user lacks "Manage Servers" (subscriptions): Burst cannot end instances, and what it launches costs on`
	for name, tt := range map[string]struct {
		acls []string
		want []string
	}{
		"no end":        {[]string{"provisioning", "subscriptions_view", "billing"}, []string{noEnd}},
		"no launch":     {[]string{"subscriptions"}, []string{`wrong permissions: the key's user lacks "Deploy New Servers" (provisioning): Burst cannot launch instances`}},
		"all":           {[]string{"manage_users"}, nil},
		"nothing known": {[]string{}, nil},
	} {
		c := fakeCloud(t, vultrtest.Options{ACLs: tt.acls})
		got := found(over(t, c).Check(t.Context(), nil))
		if d := cmp.Diff(append([]string{"ok account: hpc@example.org in lhr at " + c.URL()}, tt.want...), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// A key that may not read the account may launch: what its pools name is looked up.
func TestCheckWithoutAccount(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	c.Fail("GET account", vultrtest.Fault{Status: http.StatusForbidden, Message: "Forbidden"})
	got := found(over(t, c).Check(t.Context(), []vultr.CheckPool{{Name: "pool", Plans: []string{vultrtest.Plan}, Image: "os:2136"}}))
	if len(got) != 3 || !strings.HasPrefix(got[0], "unknown account: asking whose the key is: Forbidden") || !strings.HasPrefix(got[1], "ok pool pool, plan") {
		t.Errorf("%q", got)
	}
}

// What cannot be asked is unknown; what Vultr refuses is wrong.
func TestCheckWithoutAnswer(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	for name, tt := range map[string]struct {
		fault  vultrtest.Fault
		change func(*vultr.Config)
		want   string
	}{
		"no way there": {change: func(v *vultr.Config) { v.Endpoint = "http://127.0.0.1:1" }, want: "unknown account: asking whose the key is: dial tcp"},
		"no key":       {change: func(v *vultr.Config) { v.KeyFile = "/nonexistent/key" }, want: "unknown account: there is no API key"},
		"refused":      {fault: refusals["auth"], change: func(*vultr.Config) {}, want: "wrong account: asking whose the key is: Unauthorized IP address"},
	} {
		if tt.fault.Status != 0 {
			c.Fail("GET account", tt.fault)
		}
		got := found(over(t, c, tt.change).Check(t.Context(), nil))
		if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
