package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/hostcheck"
	"github.com/burst-hpc/burst/slurm/conf"
)

// bare takes away what the environment has for clouds, until the test has ended.
func bare(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); ofClouds(name) {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("HOME", t.TempDir()) // no ~/.aws
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// systemd is a systemctl that says so of burstd's unit, "" for a host without one.
func systemd(t *testing.T, says string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'System has not been booted with systemd' >&2\nexit 1\n"
	if says != "" {
		script = "#!/bin/sh\ncat <<'END'\n" + says + "\nEND\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("root alone, and burstd's user, are given what burstd's unit sets")
	}
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBorrow: what the caller has set stays, his identity as a whole, and no value is printed.
func TestBorrow(t *testing.T) {
	asRoot(t)
	file := put(t, filepath.Join(t.TempDir(), "env"), "VULTR_API_KEY='s3cret'\n")
	unit := "LoadState=loaded\nUser=slurm\nEnvironment=AWS_CONFIG_FILE=/etc/s3cret AWS_PROFILE=s3cret AWS_CA_BUNDLE=/s3cret HTTPS_PROXY=http://s3cret:1 PATH=/s3cret\n" +
		"EnvironmentFiles=" + file + " (ignore_errors=no)\nEnvironmentFiles=/s/none (ignore_errors=no)"
	for _, tt := range []struct {
		name, unit string
		own        map[string]string
		want       map[string]string // after it
		said, hint string
	}{
		{"nothing is set", unit, nil,
			map[string]string{"AWS_CONFIG_FILE": "/etc/s3cret", "AWS_PROFILE": "s3cret", "VULTR_API_KEY": "s3cret", "HTTPS_PROXY": "http://s3cret:1"},
			"burst: warning: EnvironmentFile= of burstd.service: open /s/none: no such file or directory\nburst: taken from burstd's environment (" + file +
				", burstd.service), as it is not set here: AWS_CA_BUNDLE, AWS_CONFIG_FILE, AWS_PROFILE, HTTPS_PROXY, VULTR_API_KEY\n", "these are burstd's own"},
		{"another identity, and a proxy in the other spelling", unit, map[string]string{"AWS_ACCESS_KEY_ID": "mine", "https_proxy": "mine"},
			map[string]string{"AWS_CONFIG_FILE": "", "AWS_PROFILE": "", "AWS_CA_BUNDLE": "/s3cret", "HTTPS_PROXY": ""},
			"as it is not set here: AWS_CA_BUNDLE, VULTR_API_KEY\n", "AWS_ACCESS_KEY_ID is set here, so that AWS_CONFIG_FILE, AWS_PROFILE of burstd's unit is not taken: unset it"},
		{"all is set", unit, map[string]string{"AWS_CONFIG_FILE": "a", "AWS_PROFILE": "p", "AWS_CA_BUNDLE": "b", "HTTPS_PROXY": "c", "VULTR_API_KEY": "d"},
			map[string]string{"AWS_CONFIG_FILE": "a", "VULTR_API_KEY": "d"}, "s/none: no such file or directory\n", "sudo -H -u slurm"},
		{"the unit sets nothing", "LoadState=loaded\nUser=slurm\nEnvironment=", nil, map[string]string{"AWS_CONFIG_FILE": ""}, "", "sudo -H -u slurm"},
		{"no unit", "LoadState=not-found", nil, map[string]string{"AWS_CONFIG_FILE": ""}, "", "systemd does not say here"},
		{"no systemd", "", nil, map[string]string{"AWS_CONFIG_FILE": ""}, "", "as in env HTTPS_PROXY=URL "},
		{"a proxy alone", "LoadState=loaded\nUser=slurm\nEnvironment=HTTPS_PROXY=http://s3cret:1", nil, map[string]string{"HTTPS_PROXY": "http://s3cret:1"},
			"burst: taken from burstd's environment (burstd.service), as it is not set here: HTTPS_PROXY\n", "sudo -H -u slurm"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bare(t)
			systemd(t, tt.unit)
			for _, name := range []string{"AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_CA_BUNDLE", "HTTPS_PROXY", "VULTR_API_KEY"} {
				t.Setenv(name, "") // so that what is taken goes when the test has ended
				os.Unsetenv(name)
			}
			for name, value := range tt.own {
				t.Setenv(name, value)
			}
			path := os.Getenv("PATH")
			var out bytes.Buffer
			b := borrow(t.Context(), hostcheck.New(endpoint.Default()), &out)
			for name, want := range tt.want {
				if got := os.Getenv(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if os.Getenv("PATH") != path {
				t.Error("PATH is another")
			}
			if tt.said == "" != (out.String() == "") || !strings.HasSuffix(out.String(), tt.said) || strings.Contains(out.String(), "s3cret") {
				t.Errorf("it says %q, want %q", out.String(), tt.said)
			}
			if hint := b.hint(); !strings.Contains(hint, tt.hint) || strings.Contains(hint, "s3cret") {
				t.Errorf("the hint is %q, want %q in it", hint, tt.hint)
			}
		})
	}
}

// TestStopAllAsBurstd: set up as docs/aws.md says, with the files of the profile in burstd's drop-in alone, root's shell
// ends the instances; where systemd does not say what burstd has, nothing is said to be gone, and the hint helps.
func TestStopAllAsBurstd(t *testing.T) {
	asRoot(t)
	bare(t)
	c := ec2test.New(ec2test.Options{Lag: 10 * time.Millisecond, Shutdown: 10 * time.Millisecond})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	files := fmt.Sprintf("AWS_CONFIG_FILE=%s AWS_SHARED_CREDENTIALS_FILE=%s", put(t, filepath.Join(dir, "aws.config"), "[profile burst]\n"),
		put(t, filepath.Join(dir, "aws.credentials"), "[burst]\naws_access_key_id = test\naws_secret_access_key = test\n"))
	toml := put(t, filepath.Join(dir, "burst.toml"), fmt.Sprintf("cluster = \"onprem\"\n[daemon]\nlisten = \"127.0.0.1:1\"\nsocket = \"%s/s\"\nstate = %[1]q\n[provider.east]\nkind = \"aws\"\n"+
		"region = \"us-east-1\"\nprofile = \"burst\"\nendpoint = %[2]q\n[pool.p]\nprovider = \"east\"\nnodes = \"p[1-2]\"\npartition = \"p\"\ninstance_types = [\"c6i.large\"]\n"+
		"image = %[3]q\nsubnets = [%[4]q]\nsecurity_groups = [%[5]q]\nmunge_key = \"image\"\nzones = [\"us-east-1a\"]\n", dir, c.URL(), ec2test.ImageX86, ec2test.SubnetIn("a"), ec2test.SecurityGroup))
	put(t, filepath.Join(dir, "cluster-id"), "f00d\n")
	for _, v := range append(strings.Fields(files), "AWS_PROFILE=burst") {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	p, err := aws.New(t.Context(), aws.Config{Name: "east", Region: "us-east-1", Endpoint: c.URL(), Pools: map[string]aws.Pool{"p": {Subnets: []string{ec2test.SubnetIn("a")}, SecurityGroups: []string{ec2test.SecurityGroup}, Fleet: "never"}}})
	if err != nil {
		t.Fatal(err)
	}
	r := []cloud.LaunchRequest{{Token: "t", Cluster: "f00d", Pool: "p", Count: 2, Image: ec2test.ImageX86, UserData: "#!/bin/sh\n", AllOrNothing: true,
		Offering: cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}}}
	if errs := p.Prepare(t.Context(), r); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if _, err := p.Launch(t.Context(), r[0]); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"} {
		os.Unsetenv(v)
	}

	systemd(t, "")
	var out, errs bytes.Buffer
	o := stopAllOptions{config: toml, yes: true}
	err = runStopAll(t.Context(), streams{&out, &errs}, o)
	var said bytes.Buffer
	code := cli.Report(&said, err)
	if out.String() != "No instance is gone: no provider could be asked.\n" || code != 1 ||
		!strings.Contains(said.String(), "hint: systemd does not say here what burstd's unit sets: give the command the same variables, as in env AWS_CONFIG_FILE=FILE ") {
		t.Errorf("without systemd: exit code %d\n%s%s", code, out.String(), said.String())
	}
	for _, line := range []string{"burst: warning: provider east could not be asked: its instances live on: ", "No provider could be asked: no instance of cluster onprem (id f00d) will be terminated.\n"} {
		if strings.Count(errs.String(), line) != 1 {
			t.Errorf("without systemd it lacks %q:\n%s", line, errs.String())
		}
	}
	for _, line := range []string{"instances of cluster onprem", "is the id"} {
		if strings.Contains(errs.String(), line) {
			t.Errorf("without systemd it says %q:\n%s", line, errs.String())
		}
	}

	systemd(t, "LoadState=loaded\nUser=slurm\nEnvironment="+files+"\n")
	errs.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	await := func(want int) {
		for live := -1; live != want && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			all, err := p.List(t.Context(), cloud.Filter{Cluster: "f00d"})
			if err != nil {
				t.Fatal(err)
			}
			live = len(slices.DeleteFunc(all, func(i cloud.Instance) bool { return !i.State.Live() }))
		}
	}
	await(2) // a list shows them late
	done := make(chan error, 1)
	go func() { done <- runStopAll(ctx, streams{&out, &errs}, o) }()
	await(0)
	ended := ctx.Err() == nil
	cancel() // EC2 counts as empty after a minute only
	<-done
	if !ended || !strings.Contains(errs.String(), "2 instances of cluster onprem (id f00d) will be terminated") {
		t.Errorf("the instances live: %v\n%s", !ended, errs.String())
	}
}

// TestCheckSaysWhatBurstdHas of a provider, where it runs: with its own credentials, which are not this user's. What
// neither of them has is wrong.
func TestCheckSaysWhatBurstdHas(t *testing.T) {
	bare(t)
	systemd(t, "")
	dir := t.TempDir()
	cfg, err := config.Load(put(t, filepath.Join(dir, "burst.toml"), fmt.Sprintf("cluster = \"onprem\"\n[daemon]\nsocket = \"%s/s\"\nstate = %[1]q\n"+
		"[provider.east]\nkind = \"aws\"\nregion = \"us-east-1\"\nprofile = \"burst\"\nendpoint = \"http://127.0.0.1:1\"\n[provider.lon]\nkind = \"vultr\"\nregion = \"lhr\"\nendpoint = \"http://127.0.0.1:1\"\n", dir)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		east  string // burstd's word of it, "" where it does not run
		level aws.Level
		last  string
	}{
		{"", aws.LevelUnknown, "failed to get shared config profile"},
		{"ok", aws.LevelUnknown, "it runs, and has no error of this provider"},
		{"list: auth: expired", aws.LevelWrong, "its last question failed: list: auth: expired"},
	} {
		end := func() {}
		if tt.east != "" {
			backend := new(apitest.Backend)
			backend.SetStatus(api.Status{Providers: map[string]string{"east": tt.east, "lon": "ok"}})
			end = serveAt(t, backend, cfg.Endpoint.Socket)
		}
		a := askClouds(t.Context(), cfg, new(conf.Input), false)
		end()
		if len(a.aws) != 1 || len(a.vultr) != 1 {
			t.Fatalf("%+v", a)
		}
		for _, f := range a.aws[0].Findings {
			if f.Subject == "credentials" && (f.Level != tt.level || !strings.Contains(f.Hint, "systemd does not say here")) {
				t.Errorf("burstd says %q: %+v", tt.east, f)
			}
		}
		if f := a.aws[0].Findings[len(a.aws[0].Findings)-1]; !strings.Contains(f.Text, tt.last) {
			t.Errorf("burstd says %q, the last finding is %+v", tt.east, f)
		}
		if f := a.vultr[0].Findings[0]; f.Subject != "account" || f.Level != aws.LevelUnknown || !strings.Contains(f.Hint, `env AWS_CONFIG_FILE=FILE AWS_SHARED_CREDENTIALS_FILE=FILE VULTR_API_KEY="$(cat FILE)" HTTPS_PROXY=URL `) {
			t.Errorf("%+v", f)
		}
	}
}
