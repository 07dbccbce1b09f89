package vultr_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// launched is what Vultr was asked for, of a launch of one instance.
func launched(t *testing.T, c *vultrtest.Cloud, p *vultr.Provider, r cloud.LaunchRequest) map[string]any {
	t.Helper()
	if got, err := p.Launch(t.Context(), r); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	all := c.Machines()
	return all[len(all)-1].Asked
}

// Every setting of a pool is part of the request, and the request is written
// with what was resolved, not with names.
func TestSettings(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	admin := c.AddKey("admin", "ssh-rsa AAAA admin")
	script, firewall := "cb676a46-66fd-4dfb-b839-443f2e6c0b60", "fda87416-9e46-4cbb-abee-3f0a15be17b5"
	p := over(t, c, func(v *vultr.Config) {
		v.Pools = map[string]vultr.Pool{"pool": {VPC: vultrtest.VPC, VPCOnly: true, SSHKeys: []string{"admin"}, Login: vultr.LimitedUser, StartupScript: script, FirewallGroup: firewall}}
	})
	r := ask("t-1", 1)
	r.Image = vultrtest.OSName
	prepared := []cloud.LaunchRequest{r}
	if err := p.Prepare(t.Context(), prepared)[0]; err != nil {
		t.Fatal(err)
	}
	if spec := string(prepared[0].Spec); !strings.Contains(spec, `"os":2136`) || !strings.Contains(spec, admin) {
		t.Errorf("the request is written as %s", spec)
	}
	got := launched(t, c, p, prepared[0])
	for key, want := range map[string]any{
		"region": vultrtest.Region, "plan": vultrtest.Plan, "os_id": float64(vultrtest.OS), "label": "burst-t-1-0", "hostname": "burst-t-1-0", "user_data": "IyEvYmluL3NoCg==",
		"script_id": script, "firewall_group_id": firewall, "user_scheme": "limited", "vpc_only": true, "activation_email": false, "backups": "disabled",
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	lists, err := json.Marshal([]any{got["attach_vpc"], got["sshkey_id"], got["tags"]})
	want := `[["` + vultrtest.VPC + `"],["` + admin + `"],["burst:cluster=c-1","burst:net=vpc","burst:pool=pool","burst:token=t-1","project=storm%20surge"]]`
	if err != nil || string(lists) != want {
		t.Errorf("lists are %s, %v, want %s", lists, err, want)
	}
	listed, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
	if err != nil || len(listed) != 1 || !strings.HasPrefix(listed[0].Addr, "192.168.") {
		t.Errorf("in its VPC it is %+v, %v", listed, err)
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	old := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	c.AddSnapshot("burst-mpi", "complete", old)
	newest := c.AddSnapshot("burst-mpi", "complete", old.AddDate(0, 0, 7))
	pending := c.AddSnapshot("burst-mpi", "pending", old.AddDate(0, 0, 14))
	for image, want := range map[string]struct {
		key  string
		id   any
		kind cloud.Kind
		text string
	}{
		"os:2136":                              {key: "os_id", id: 2136.0},
		"2284":                                 {key: "os_id", id: 2284.0},
		"rocky linux 9 X64":                    {key: "os_id", id: 1869.0},
		"os: Ubuntu 24.04 LTS x64":             {key: "os_id", id: 2284.0},
		newest:                                 {key: "snapshot_id", id: newest},
		"snapshot:burst-mpi":                   {key: "snapshot_id", id: newest},
		"image:openfoam":                       {key: "image_id", id: "openfoam"},
		"Ubuntu 24":                            {kind: cloud.Invalid, text: `it has "Ubuntu 24.04 LTS x64"`},
		"Plan 9":                               {kind: cloud.Invalid, text: "its whole name"},
		"snapshot:none":                        {kind: cloud.Invalid, text: "no snapshot none"},
		"snapshot:":                            {kind: cloud.Invalid, text: "names no image"},
		"":                                     {kind: cloud.Invalid, text: "names no image"},
		"image:a b":                            {kind: cloud.Invalid, text: "no id of a marketplace image"},
		pending:                                {kind: cloud.Transient, text: "is pending, not complete"},
		"cb676a46-66fd-4dfb-b839-443f2e6c0b60": {kind: cloud.Invalid, text: "no snapshot cb676a46"},
	} {
		p := over(t, c)
		r := []cloud.LaunchRequest{ask("t-"+strings.Repeat("x", len(image)%7), 1)}
		r[0].Image = image
		err := p.Prepare(t.Context(), r)[0]
		if want.key == "" {
			if cloud.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) {
				t.Errorf("%q: %v, want %s with %q", image, err, want.kind, want.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", image, err)
			continue
		}
		r[0].Token = "t-" + strings.NewReplacer(":", "", " ", "", ".", "").Replace(image)
		if got := launched(t, c, p, r[0]); got[want.key] != want.id {
			t.Errorf("%q is launched as %v, want %s %v", image, got, want.key, want.id)
		}
	}
}

func TestRefusedAsItIs(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	c.SetCapacity(vultrtest.Plan2, 0)
	c.SetCapacity(vultrtest.Unlisted, 0)
	p := over(t, c, func(v *vultr.Config) {
		v.Pools = map[string]vultr.Pool{"pool": {}, "vpc": {VPC: vultrtest.VPC}, "fire": {FirewallGroup: vultrtest.VPC}, "keys": {SSHKeys: []string{"nobody"}}}
	})
	for name, tt := range map[string]struct {
		change func(*cloud.LaunchRequest)
		kind   cloud.Kind
		text   string
	}{
		"spot":               {func(r *cloud.LaunchRequest) { r.Offering.Market = cloud.Spot }, cloud.Invalid, "on demand"},
		"a zone":             {func(r *cloud.LaunchRequest) { r.Offering.Zone = "lhr-1" }, cloud.Invalid, "no zones"},
		"a choice":           {func(r *cloud.LaunchRequest) { r.Or = []cloud.Offering{r.Offering} }, cloud.Invalid, "one plan"},
		"a part of a name":   {func(r *cloud.LaunchRequest) { r.Offering.Type = "vhp-8c-16gb" }, cloud.Invalid, `no plan "vhp-8c-16gb"; it has vhp-8c-16gb-amd`},
		"alike":              {func(r *cloud.LaunchRequest) { r.Offering.Type = "vcg-b200" }, cloud.Invalid, `no plan "vcg-b200"; it has vcg-a100-6c-60gb, vcg-a40-24c-120g-48vram`},
		"no such plan":       {func(r *cloud.LaunchRequest) { r.Offering.Type = "c6i.large" }, cloud.Invalid, `no plan "c6i.large"`},
		"not in the region":  {func(r *cloud.LaunchRequest) { r.Offering.Type = vultrtest.GPUPlan }, cloud.Capacity, "is not in lhr now: Vultr lists it for ewr"},
		"nowhere":            {func(r *cloud.LaunchRequest) { r.Offering.Type = vultrtest.Unlisted }, cloud.Capacity, "is not in lhr now: Vultr lists it for no region"},
		"no disk":            {func(r *cloud.LaunchRequest) { r.Offering.Type = vultrtest.Diskless }, cloud.Invalid, "has no disk of its own"},
		"none left":          {func(r *cloud.LaunchRequest) { r.Offering.Type = vultrtest.Plan2 }, cloud.Capacity, "no vc2-2c-4gb is left at Vultr in lhr"},
		"metal in a VPC":     {func(r *cloud.LaunchRequest) { r.Pool, r.Offering.Type = "vpc", vultrtest.Metal }, cloud.Invalid, "no VPC"},
		"metal and firewall": {func(r *cloud.LaunchRequest) { r.Pool, r.Offering.Type = "fire", vultrtest.Metal }, cloud.Invalid, "no firewall groups"},
		"an unknown key":     {func(r *cloud.LaunchRequest) { r.Pool = "keys" }, cloud.Invalid, `no SSH key "nobody"`},
	} {
		r := []cloud.LaunchRequest{ask("t-1", 1)}
		tt.change(&r[0])
		err := p.Prepare(t.Context(), r)[0]
		if cloud.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %s with %q", name, err, tt.kind, tt.text)
		}
		if e := cloud.Errors(err); len(e) != 1 || !e[0].Settled {
			t.Errorf("%s: %v is not settled", name, err)
		}
	}
	if n := c.Count(posts); n != 0 {
		t.Errorf("%d instances were asked for", n)
	}
}

// TestUnlistedPlan: Vultr's list of plans has some for no region, or not for all, that a region
// sells all the same.
func TestUnlistedPlan(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	r := []cloud.LaunchRequest{ask("t-1", 1)}
	r[0].Offering.Type = vultrtest.Unlisted
	if err := p.Prepare(t.Context(), r)[0]; err != nil {
		t.Fatal(err)
	}
	if got := launched(t, c, p, r[0]); got["plan"] != vultrtest.Unlisted {
		t.Errorf("launched is %v", got)
	}
	if got, err := p.BuilderType(t.Context(), cloud.BuilderNeeds{Types: []string{vultrtest.Unlisted}}); err != nil || got != vultrtest.Unlisted {
		t.Errorf("an image is made on %q, %v", got, err)
	}
	q := over(t, c)
	c.Fail("GET regions", vultrtest.Fault{Status: http.StatusBadRequest, Message: "Invalid region."})
	if err := q.Prepare(t.Context(), r)[0]; err == nil || cloud.KindOf(err) == cloud.Capacity {
		t.Errorf("where the region does not say what it has: %v", err)
	}
}

// TestPreemptibleOnly: a plan that is not sold on demand is refused, whatever regions sell it; one of which that is
// not said is sold.
func TestPreemptibleOnly(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{"": "", `"deploy_ondemand": true,`: "", `"deploy_ondemand": false,`: "sells plan " + vultrtest.Plan + " preemptible only"} {
		c := fakeCloud(t, vultrtest.Options{})
		c.Fail("GET plans", vultrtest.Fault{Body: `{"plans": [{"id": "` + vultrtest.Plan + `", "vcpu_count": 8, "ram": 16384, "disk": 350, ` + said +
			`"locations": ["lhr"]}], "meta": {"total": 1, "links": {"next": "", "prev": ""}}}`})
		p := over(t, c)
		err := p.Prepare(t.Context(), []cloud.LaunchRequest{ask("t-1", 1)})[0]
		if (err == nil) != (want == "") || err != nil && (cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", said, err)
		}
		if got, err := p.BuilderType(t.Context(), cloud.BuilderNeeds{Types: []string{vultrtest.Plan}}); (err == nil) != (want == "") || err == nil && got != vultrtest.Plan {
			t.Errorf("%q: an image is made on %q, %v", said, got, err)
		}
	}
}

const ed25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

// A public key file is given to the account once: not twice by many at once, not
// after a lost answer, and not at all where the account has it under another name.
func TestPublicKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "id.pub")
	if err := os.WriteFile(file, []byte(ed25519+" admin@head\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pools := func(v *vultr.Config) { v.Pools = map[string]vultr.Pool{"pool": {SSHPublicKey: file}} }
	c := fakeCloud(t, vultrtest.Options{PageSize: 2})
	for _, name := range []string{"a", "b", "c"} {
		c.AddKey(name, "ssh-rsa AAAA "+name)
	}
	c.Fail("POST ssh-keys", vultrtest.Fault{Lost: true})
	a, b := over(t, c, pools), over(t, c, pools)
	if err := a.Prepare(t.Context(), []cloud.LaunchRequest{ask("t-0", 1)})[0]; cloud.KindOf(err) != cloud.Transient {
		t.Errorf("%v, want a transient error", err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := []*vultr.Provider{a, b}[i%2].Prepare(t.Context(), []cloud.LaunchRequest{ask("t-1", 1)})[0]; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	keys := c.Keys()
	if len(keys) != 4 || keys["burst SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"] != ed25519 || c.Count("POST ssh-keys") != 1 {
		t.Errorf("the account has %v after %d gifts", keys, c.Count("POST ssh-keys"))
	}
	had := fakeCloud(t, vultrtest.Options{})
	id := had.AddKey("mine", "  "+ed25519+" laptop\n")
	if got := launched(t, had, over(t, had, pools), ask("t-1", 1)); len(had.Keys()) != 1 || got["sshkey_id"].([]any)[0] != id {
		t.Errorf("the account has %v, the instance %v", had.Keys(), got["sshkey_id"])
	}
	for text, want := range map[string]string{
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n": "is a private key",
		"ssh-ed25519":                               "not one public key",
		ed25519 + "\n" + ed25519:                    "not one public key",
		strings.Replace(ed25519, "5519", "5518", 1): "not one of the kind",
		"ssh-ed25519 AAAA!":                         "not one of the kind",
		"":                                          "not one public key",
	} {
		if err := vultr.CheckPublicKey(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", text, err, want)
		}
	}
}

// The API key is read for each request, only from a file that not everybody
// reads, and goes nowhere but to the endpoint.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	path := filepath.Join(t.TempDir(), "key")
	p := over(t, c, func(v *vultr.Config) { v.KeyFile = path })
	refused := func(what, want string) {
		t.Helper()
		_, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
		if cloud.KindOf(err) != cloud.Auth || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, want an error of auth with %q and without the key", what, err, want)
		}
	}
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	refused("no file", "no such file")
	write("SECRET two words", 0o600)
	refused("two words", "one key on one line")
	write(vultrtest.Key, 0o644)
	refused("readable by all", "chmod 600")
	write("SECRET", 0o600)
	refused("a wrong key", "Invalid API token")
	write(vultrtest.Key+"\n", 0o640)
	if _, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil {
		t.Errorf("the right one: %v", err)
	}
	var leaked sync.Map
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(r.Header.Get("Authorization"), true) }))
	defer elsewhere.Close()
	redirects := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer redirects.Close()
	q := over(t, c, func(v *vultr.Config) { v.Endpoint = redirects.URL })
	if _, err := q.Account(t.Context()); err == nil {
		t.Error("a redirect is an answer")
	}
	leaked.Range(func(k, _ any) bool { t.Errorf("another host was sent %q", k); return true })
}

func TestCatalogAndPrices(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{PageSize: 2})
	p := over(t, c)
	types, err := p.Types(t.Context(), []string{vultrtest.Metal, vultrtest.Plan, vultrtest.GPUPlan})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []cloud.InstanceType{
		{Name: vultrtest.Metal, CPUs: 12, Cores: 6, ThreadsPerCore: 2, MemoryMiB: 32768},
		{Name: vultrtest.Plan, CPUs: 8, Cores: 8, CoresAreVCPUs: true, ThreadsPerCore: 1, MemoryMiB: 16384},
		{Name: vultrtest.GPUPlan, CPUs: 6, Cores: 6, CoresAreVCPUs: true, ThreadsPerCore: 1, MemoryMiB: 61440,
			GPUNote: vultrtest.GPUPlan + " has a part of a GPU (a100): 40 of its 80 GB"},
	} {
		got := types[i]
		if got.Name != want.Name || got.CPUs != want.CPUs || got.Cores != want.Cores || got.ThreadsPerCore != want.ThreadsPerCore || got.MemoryMiB != want.MemoryMiB ||
			got.CoresAreVCPUs != want.CoresAreVCPUs || len(got.GPUs) != 0 || got.GPUNote != want.GPUNote || got.Arch != "x86_64" || got.Spot || len(got.Zones) == 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if _, err := p.Types(t.Context(), []string{"c6i.large"}); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("an unknown plan: %v", err)
	}
	offering := func(name string) cloud.Offering { return cloud.Offering{Type: name, Market: cloud.OnDemand} }
	spot := offering(vultrtest.Plan)
	spot.Market = cloud.Spot
	for region, want := range map[string]map[string]float64{
		vultrtest.Region: {vultrtest.Plan: 0.132, vultrtest.Plan2: 0.027, vultrtest.GPUPlan: 1314.0 / 730, vultrtest.Metal: 0.253},
		"sao":            {vultrtest.Plan: 0.197, vultrtest.Plan2: 0.027, vultrtest.GPUPlan: 1314.0 / 730, vultrtest.Metal: 0.253},
	} {
		q := over(t, c, func(v *vultr.Config) { v.Region = region })
		prices, err := q.Prices(t.Context(), []cloud.Offering{offering(vultrtest.Plan), spot, offering("c6i.large"), offering(vultrtest.Plan2), offering(vultrtest.GPUPlan), offering(vultrtest.Metal)})
		if err != nil || len(prices) != 4 {
			t.Fatalf("%s: %v, %v", region, prices, err)
		}
		for _, got := range prices {
			month := map[string]float64{vultrtest.Plan: 96, vultrtest.Plan2: 20, vultrtest.GPUPlan: 1314, vultrtest.Metal: 185}[got.Offering.Type]
			if region == "sao" && got.Offering.Type == vultrtest.Plan {
				month = 144
			}
			if got.USDPerHour != want[got.Offering.Type] || got.USDPerMonth != month || got.Source != "plans-api" || time.Since(got.Date) > time.Minute {
				t.Errorf("%s: %+v, want %v", region, got, want[got.Offering.Type])
			}
		}
	}
	if n := c.Count("GET plans"); n != 3*3 {
		t.Errorf("the plans were listed by %d requests, want 3 pages by each of 3 providers", n)
	}
}

// Two regions of one account are two providers: neither shows the other's.
func TestRegions(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	p := over(t, c)
	if _, err := p.Launch(t.Context(), ask("t-1", 2)); err != nil {
		t.Fatal(err)
	}
	ewr := over(t, c, func(v *vultr.Config) { v.Region = "ewr" })
	if found, err := ewr.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil || len(found) != 0 {
		t.Errorf("ewr shows %v, %v", found, err)
	}
	here, err := p.Account(t.Context())
	there, terr := ewr.Account(t.Context())
	if err != nil || terr != nil || here == there || !strings.Contains(here, vultrtest.Email) {
		t.Errorf("%q, %v and %q, %v", here, err, there, terr)
	}
	counted := map[string]bool{}
	for _, n := range p.Counts() {
		counted[n.Which+" "+n.Result] = n.What == "api" && n.N > 0
	}
	if !counted["POST instances ok"] || !counted["GET bare-metals ok"] && !counted["GET instances ok"] {
		t.Errorf("counted are %v", p.Counts())
	}
}

// TestNoBuilderOfBareMetal: it is refused before it has cost an hour.
func TestNoBuilderOfBareMetal(t *testing.T) {
	t.Parallel()
	p := over(t, fakeCloud(t, vultrtest.Options{}))
	for plan, want := range map[string]bool{vultrtest.Metal: false, vultrtest.Plan: true} {
		r := request(plan)
		r.Token, r.Cluster, r.Pool, r.Count = cloud.BuilderToken(time.Now()), "c", "pool", 1
		if err := p.Prepare(t.Context(), []cloud.LaunchRequest{r})[0]; (err == nil) != want || !want && !strings.Contains(err.Error(), "bare metal, of which Vultr makes no snapshots") {
			t.Errorf("%s: %v", plan, err)
		}
	}
}
