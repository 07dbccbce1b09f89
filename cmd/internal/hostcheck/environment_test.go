package hostcheck

import (
	"errors"
	"maps"
	"slices"
	"testing"
)

const showEnvironment = "systemctl show burstd.service --property=LoadState,User,Environment,EnvironmentFiles"

// TestEnvironment is as systemd reads it: a file's lines after the unit's own.
func TestEnvironment(t *testing.T) {
	w := newWorld(t)
	w.write(t, "/etc/default/burstd", "# of the site\n; too\n\nVULTR_API_KEY = \"k e\\\"y\" \nPLAIN=a b#c \\\nd\nexport\nQUOTED='it is \\ so'\nDOUBLE=\"a\\b\\\\\"\nAWS_CA_BUNDLE=/etc/ca\n", 0o600)
	w.write(t, "/etc/burst/a.env", "HTTPS_PROXY=http://two:3128\n", 0o600)
	w.said[showEnvironment] = "LoadState=loaded\nUser=slurm\n" +
		`Environment=AWS_CONFIG_FILE=/etc/burst/aws.config "NO_PROXY=a, b \"c\" \$d" AWS_CA_BUNDLE=/etc/old HTTPS_PROXY=http://one:3128 [unprintable] EMPTY=` + "\n" +
		"EnvironmentFiles=/etc/default/burstd (ignore_errors=no)\nEnvironmentFiles=/etc/burst/*.env (ignore_errors=no)\n" +
		"EnvironmentFiles=/etc/none (ignore_errors=yes)\nEnvironmentFiles=/etc/lost (ignore_errors=no)\n"
	e, ok := w.Environment(t.Context())
	if !ok || e.User != "slurm" {
		t.Fatalf("%+v, %v", e, ok)
	}
	if len(e.Unread) != 1 || e.Unread[0].Error() != "EnvironmentFile= of burstd.service: open "+w.at("/etc/lost")+": no such file or directory" {
		t.Errorf("not read: %v", e.Unread)
	}
	want := map[string]Variable{
		"AWS_CONFIG_FILE": {"/etc/burst/aws.config", "burstd.service"},
		"NO_PROXY":        {`a, b "c" $d`, "burstd.service"},
		"EMPTY":           {"", "burstd.service"},
		"AWS_CA_BUNDLE":   {"/etc/ca", "/etc/default/burstd"},
		"HTTPS_PROXY":     {"http://two:3128", "/etc/burst/a.env"},
		"VULTR_API_KEY":   {`k e"y`, "/etc/default/burstd"},
		"PLAIN":           {"a b#c d", "/etc/default/burstd"},
		"DOUBLE":          {`a\b\`, "/etc/default/burstd"},
		"QUOTED":          {`it is \ so`, "/etc/default/burstd"},
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if e.Values[name] != want[name] {
			t.Errorf("%s is %q, want %q", name, e.Values[name], want[name])
		}
	}
	if len(e.Values) != len(want) {
		t.Errorf("%d variables, want %d: %q", len(e.Values), len(want), e.Values)
	}
}

// TestNoEnvironment: without systemd, or without the unit, nothing is known of burstd's.
func TestNoEnvironment(t *testing.T) {
	w := newWorld(t)
	w.said[showEnvironment] = "LoadState=not-found\nUser=\nEnvironment=\n"
	if e, ok := w.Environment(t.Context()); ok || len(e.Values) != 0 {
		t.Errorf("no unit: %+v, %v", e, ok)
	}
	w.fails[showEnvironment] = errors.New("systemctl: not found")
	if e, ok := w.Environment(t.Context()); ok || len(e.Values) != 0 {
		t.Errorf("no systemd: %+v, %v", e, ok)
	}
}

// FuzzUnquote ends, whatever is written, and takes all of it.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{"", `A=b "C=d e" 'f`, `\`, `"\`, "  a  "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for left := s; left != ""; {
			word, rest := unquote(left, " ")
			if len(rest) >= len(left) || len(word) > len(left) {
				t.Fatalf("of %q comes %q, and %q is left", left, word, rest)
			}
			left = rest
		}
	})
}
