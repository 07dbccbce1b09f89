package main

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cmd/internal/cli"
)

func TestParse(t *testing.T) {
	env := map[string]string{
		"BURST_URLS": "http://10.0.0.5:9811,https://two.example.org", "BURST_DAEMON_UID": "64030",
		"BURST_SPOOL": "/local/spool", "STATE_DIRECTORY": "/var/lib/burst-agent:/other",
	}
	read := func(args ...string) (options, error) {
		return parse(args, func(name string) string { return env[name] })
	}
	type settings struct {
		URLs         []string
		UID          int
		Spool, State string
	}
	for _, tt := range []struct {
		args string
		want settings
	}{
		{"", settings{[]string{"http://10.0.0.5:9811", "https://two.example.org"}, 64030, "/local/spool", "/var/lib/burst-agent/told.json"}},
		{"--urls http://h:1/ --daemon-uid 7 --spool /s --state /f --check --json", settings{[]string{"http://h:1/"}, 7, "/s", "/f"}},
	} {
		o, err := read(strings.Fields(tt.args)...)
		if err != nil || o.IMDS == nil || o.Munge == nil || o.check != strings.Contains(tt.args, "--check") {
			t.Errorf("%q: %+v, %v", tt.args, o, err)
		}
		if d := cmp.Diff(tt.want, settings{o.URLs, o.DaemonUID, o.Spool, o.State}); d != "" {
			t.Errorf("%q: %s", tt.args, d)
		}
	}
	if _, err := read("--help"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	if o, err := read("--version"); !o.version || err != nil {
		t.Errorf("--version: %+v, %v", o, err)
	}
	for _, tt := range []struct{ args, want string }{
		{"--tehn", "not defined"},
		{"x", `unexpected argument "x"`},
		{"--json", "--json is for --check"},
		{"--urls ,", "no URL of burstd"},
		{"--urls 10.0.0.5:9811", "is no URL of burstd"},
		{"--urls http://u:p@h", "is no URL of burstd"},
		{"--urls http://h/path", "is no URL of burstd"},
		{"--daemon-uid slurm", `"slurm" is no uid`},
		{"--daemon-uid -1", `"-1" is no uid`},
		{"--imds 169.254.169.254", "is no URL of a metadata service"},
	} {
		_, err := read(strings.Fields(tt.args)...)
		var code interface{ ExitCode() int }
		if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, &code) || code.ExitCode() != cli.Usage {
			t.Errorf("%q: %v, want %q and exit code 2", tt.args, err, tt.want)
		}
	}
}

// TestHelpNamesTheEnvironment: what is read from it is said.
func TestHelpNamesTheEnvironment(t *testing.T) {
	var names []string
	_, _ = parse([]string{"--urls", "http://h"}, func(name string) string { // its error is not looked at
		names = append(names, name)
		return ""
	})
	if !slices.Contains(names, "BURST_URLS") {
		t.Fatalf("only %v are read", names)
	}
	for _, name := range names {
		if !strings.Contains(help, "$"+name) {
			t.Errorf("--help does not say %s", name)
		}
	}
}
