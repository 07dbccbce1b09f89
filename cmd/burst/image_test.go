package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh/sshtest"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// site is a burst.toml with a pool on a fake of Vultr, all of whose instances are
// one host with a real sshd.
type site struct {
	*testing.T
	fake *vultrtest.Cloud
	host *sshtest.Host
	dir  string
	toml string

	mu       sync.Mutex
	out, err bytes.Buffer
}

func newSite(t *testing.T, net *sshtest.Net, setup string) *site {
	t.Helper()
	public, key := sshtest.Key(t)
	s := &site{T: t, host: net.Host(sshtest.Options{Login: public}), dir: t.TempDir()}
	s.fake = vultrtest.New(vultrtest.Options{Boot: time.Second, Snapshot: 8 * time.Second, Halt: 2 * time.Second, Addr: func(int) string { return s.host.IP.String() }})
	if err := s.fake.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.fake.Close(); err != nil {
			t.Error(err)
		}
	})
	s.cloudInit()
	s.put("key", vultrtest.Key)
	s.put("munge.key", "the cluster's secret of more than 32 bytes")
	s.put("cluster-id", "f00d")
	b := new(apitest.Backend)
	t.Cleanup(serveAt(t, b, filepath.Join(s.dir, "s")))
	s.toml = filepath.Join(s.dir, "burst.toml")
	s.put("burst.toml", fmt.Sprintf(`cluster = "c"
[daemon]
state = %[1]q
socket = "%[1]s/s"
listen = "head.example.org:9811"
[provider.lon]
kind = "vultr"
region = "lhr"
endpoint = %[2]q
api_key_file = "%[1]s/key"
[pool.v]
provider = "lon"
nodes = "v[1-2]"
partition = "cloud"
instance_types = ["vhp-8c-16gb-amd"]
image = "os:2136"
munge_key = "ssh:%[1]s/munge.key"
ssh = { key = %[3]q, host_key = "user-data" }
setup = %[4]s
`, s.dir, s.fake.URL(), key, setup))
	cfg, err := config.Load(s.toml)
	if err != nil {
		t.Fatal(err)
	}
	b.SetStatus(heardBy(cfg))
	// The machine of the image is a folder of the host's: what cleans it must never
	// meet this host's own files.
	s.host.Put("/usr/local/bin/bash", []byte("#!/bin/sh\nexport BURST_ROOT=/srv/image\nexec /bin/bash \"$@\"\n"))
	for name, text := range map[string]string{"chronyc": "", "timedatectl": "echo yes", "nft": "cat >/dev/null", "runuser": `[ "$4" != curl ]`,
		"munged": "", "slurmd": "echo slurm-wlm 22.05.8", "cloud-init": "", "sync": "",
		"systemctl": "", "systemd-run": `case "$*" in *"systemctl poweroff"*) echo >/srv/off;; esac`} {
		s.host.Put("/usr/local/bin/"+name, []byte("#!/bin/sh\n"+text+"\n"))
	}
	s.host.Do(`chmod 755 /usr/local/bin/*; cd /srv && mkdir -p image && cd image && mkdir -p run/systemd/system etc/ssh etc/munge root/.ssh var/log tmp var/tmp &&
		for f in etc/ssh/ssh_host_rsa_key etc/munge/munge.key root/.ssh/authorized_keys etc/machine-id var/log/syslog; do echo secret >$f; done`)
	return s
}

// cloudInit runs the user data of the machine on the host that is it.
func (s *site) cloudInit() {
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	s.Cleanup(func() {
		cancel()
		run.Wait()
	})
	run.Go(func() {
		for last := ""; ctx.Err() == nil; {
			if all := s.fake.Machines(); len(all) == 1 && all[0].ID != last {
				last = all[0].ID
				s.host.Put("/root/user-data", []byte(all[0].UserData))
				s.host.Do("sh /root/user-data")
			}
			if s.host.Read("/srv/off") != "" { // it has shut itself down
				s.fake.Off(last)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

func (s *site) put(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// Write takes what a command says on standard error, which a test reads meanwhile.
func (s *site) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.Write(text)
}

func (s *site) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.String()
}

func (s *site) build(ctx context.Context) error {
	return runImageBuild(ctx, streams{&s.out, s}, imageBuildOptions{config: s.toml, pool: "v", within: 20 * time.Minute})
}

// nothing checks that no instance is left, and no lease.
func (s *site) nothing(snapshots int) {
	s.Helper()
	if m := s.fake.Machines(); len(m) != 0 {
		s.Errorf("machines are left: %+v", m)
	}
	if all := s.fake.Snapshots(); len(all) != snapshots {
		s.Errorf("snapshots are %v, want %d", all, snapshots)
	}
	if torn := append(s.fake.Torn(), s.fake.Unplugged()...); len(torn) != 0 {
		s.Errorf("snapshots of an instance that still ran, or was unplugged: %v", torn)
	}
	if left, err := os.ReadDir(string(imaging.LeasesIn(s.dir))); err != nil || len(left) != 0 {
		s.Errorf("leases are left: %v, %v", left, err)
	}
}

func TestImageBuildOnVultr(t *testing.T) {
	if testing.Short() {
		t.Skip("a real sshd and Vultr's lag of a minute: slow end-to-end, run by make test")
	}
	t.Parallel()
	net := sshtest.New(t)
	t.Run("made, listed, deleted", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, net, `["echo $BURST_IMAGE >>/srv/image/ran", "[ -z \"${BURST_NODE:-}\" ]"]`)
		if err := s.build(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, s.said())
		}
		s.nothing(1)
		var id string
		for snapshot, text := range s.fake.Snapshots() {
			id = "snapshot:" + snapshot
			if !strings.HasPrefix(text, "burst:token=image-") || !strings.HasSuffix(text, " burst:cluster=f00d burst:pool=v burst:image=os:2136") {
				t.Errorf("its description is %q", text)
			}
		}
		if !strings.HasSuffix(s.out.String(), "\nimage = \""+id+"\"\n\nand, as an instance of a snapshot takes Vultr 10 to 15 minutes longer than one of an operating system, into [pool.v]:\n\n"+
			"resume_timeout = \"45m\"\n\nThat is Slurm's too: run \"burst genconf\" again.\n") {
			t.Errorf("printed:\n%s", s.out.String())
		}
		for _, want := range []string{"launching an instance", "setting it up", "making the image", "ending the instance"} {
			if !strings.Contains(s.said(), want) {
				t.Errorf("it does not say %q:\n%s", want, s.said())
			}
		}
		if got := s.host.Read("/srv/image/ran"); got != "1\n" {
			t.Errorf("the setup has left %q", got)
		}
		if left := s.host.Do("grep -rlE \"secret|burst-bootstrap: step\" /srv/image || :"); left != "" {
			t.Errorf("secrets or logs are left in\n%s", left)
		}
		if found := s.host.Do("ls -A /srv/image/var/lib/burst/setup/* /srv/image/etc/ssh 2>/dev/null || :"); strings.Contains(found, "key") || strings.Contains(found, "script") {
			t.Errorf("left is\n%s", found)
		}
		images, err := s.list()
		if err != nil || len(images) != 1 || images[0].ID != id || images[0].State != cloud.ImageAvailable || images[0].Source != "os:2136" {
			t.Fatalf("listed is %+v, %v", images, err)
		}
		use := strings.Replace(string(must(os.ReadFile(s.toml))), "os:2136", id, 1)
		s.put("used.toml", use)
		o := imageDeleteOptions{config: filepath.Join(s.dir, "used.toml"), ids: []string{id}, yes: true}
		if err := runImageDelete(t.Context(), streams{&s.out, s}, o); err == nil || !strings.Contains(err.Error(), "is that of pool v") {
			t.Errorf("deleting a pool's image: %v", err)
		}
		s.nothing(1)
		o.config = s.toml
		if err := runImageDelete(t.Context(), streams{&s.out, s}, o); err != nil {
			t.Error(err)
		}
		s.nothing(0)
	})
	t.Run("a setup line fails", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, net, `["true", "echo no rule to make target; exit 2"]`)
		err := s.build(t.Context())
		if err == nil || cli.Report(new(bytes.Buffer), err) != cli.Failed || !strings.Contains(err.Error(), `setup line 2: "echo no rule to make target; exit 2": exit 2`) ||
			!strings.Contains(s.said(), "  no rule to make target\n") {
			t.Errorf("%v\n%s", err, s.said())
		}
		s.nothing(0)
	})
	t.Run("interrupted in its setup", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, net, `["touch /srv/image/begun; sleep 300"]`)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- s.build(ctx) }()
		for s.host.Do("ls /srv/image/begun 2>/dev/null || :") == "" && ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
		}
		if m := s.fake.Machines(); len(m) != 1 || ctx.Err() != nil {
			t.Fatalf("machines are %+v: %v\n%s", m, ctx.Err(), s.said())
		}
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "interrupted, no image is made") {
			t.Error(err)
		}
		s.nothing(0)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (s *site) list() ([]listedImage, error) {
	cfg, err := config.Load(s.toml)
	if err != nil {
		return nil, err
	}
	return allImages(s.Context(), cfg)
}
