package ssh

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

func TestParse(t *testing.T) {
	const begin = "Welcome!\nM begin\n"
	for _, tt := range []struct {
		name, text string
		want       answer
		err        string
	}{
		{"nothing", "", answer{}, "no answer that can be read"},
		{"a greeting", "Please login as the user \"ubuntu\" rather than the user \"root\".\n", answer{}, "no answer"},
		{"none", begin + "M state none\nM free 12\nM arch x86_64\nM output 0 0\n", answer{state: "none", free: 12, arch: "x86_64"}, ""},
		{"output", begin + "M state running\nM output 7 12\nM end\nM stateM", answer{state: "running", from: 7, output: []byte("M end\nM stat")}, ""},
		{"ended", begin + "M state ended 3\nM output 0 0\n", answer{state: "ended", number: 3}, ""},
		{"lost", begin + "M state lost 2\nM output 0 0\n", answer{state: "lost", number: 2}, ""},
		{"cut off", begin + "M state running\nM output 0 12\nabc", answer{}, "cut off"},
		{"a negative length", begin + "M state running\nM output 5 -5\n", answer{}, "cut off"},
		{"no state", begin + "M output 0 0\n", answer{}, "cut off"},
		{"another state", begin + "M state asleep\n", answer{}, `its state "asleep" cannot be read`},
		{"no code", begin + "M state ended soon\n", answer{}, `its state "ended soon" cannot be read`},
		{"an error", begin + "M error no room\n", answer{}, "no room"},
		{"another's mark", "N begin\nN state none\nN output 0 0\n", answer{}, "no answer"},
		{"a verb", begin + "M file script abc\nM end\n", answer{}, ""},
		{"no beginning", "M end\n", answer{}, "no answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse("M", []byte(tt.text))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || got.state != tt.want.state || got.number != tt.want.number || got.from != tt.want.from || got.free != tt.want.free ||
				got.arch != tt.want.arch || !bytes.Equal(got.output, tt.want.output) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("x\nM begin\nM state running\nM free 1\nM output 0 3\nabc"))
	f.Add([]byte("M begin\nM file a b\nM end\n"))
	f.Add([]byte("M begin\nM error \x1b[31m\xff\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		a, err := parse("M", out)
		if err != nil {
			if text := err.Error(); !utf8.ValidString(text) || strings.ContainsAny(text, "\n\x1b") || len(text) > 500 {
				t.Errorf("%q", text)
			}
			return
		}
		if len(a.output) > len(out) || a.from < 0 || a.number < 0 {
			t.Errorf("%+v", a)
		}
		s := setup{}
		s.take(a)
		if w := s.failure(1).Why; strings.ContainsAny(w, "\n\x1b") || !utf8.ValidString(w) {
			t.Errorf("%q", w)
		}
	})
}

func FuzzConsoleKeys(f *testing.F) {
	f.Add("ci-info: x\n" + keysBegin + "\necdsa-sha2-nistp256 AAAA root@ip\n[   9.1] ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJTlQOkVHaRPtn4XPQ4vPvFkCRgtfbWBf8qgCGJF4s0f root@ip\r\n" + keysEnd + "\n")
	f.Fuzz(func(t *testing.T, console string) {
		for _, k := range ConsoleKeys(console) {
			if k == nil {
				t.Error("a key that is none")
			}
		}
	})
}

func TestConsoleKeys(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJTlQOkVHaRPtn4XPQ4vPvFkCRgtfbWBf8qgCGJF4s0f root@ip"
	for name, console := range map[string]string{
		"plain":        "boot\n" + keysBegin + "\n" + key + "\n" + keysEnd + "\n",
		"prefixed":     keysBegin + "\r\n<14>Nov 22 ec2: " + key + "\r\n" + keysEnd,
		"a later boot": keysBegin + "\nssh-rsa AAAA\n" + keysEnd + "\n" + keysBegin + "\n" + key + "\n" + keysEnd,
	} {
		keys := ConsoleKeys(console)
		if len(keys) != 1 || keys[0].Type() != "ssh-ed25519" {
			t.Errorf("%s: %v", name, keys)
		}
	}
	if keys := ConsoleKeys(keysBegin + "\n" + key + "\n"); keys != nil {
		t.Errorf("a block that is cut off: %v", keys)
	}
}

func TestFolder(t *testing.T) {
	f := Folder(filepath.Join(t.TempDir(), "keys"))
	one, two := newKey(t), newKey(t)
	if k, err := f.Key("i-1"); k != nil || err != nil {
		t.Fatal(k, err)
	}
	if err := f.Pin("i-1", one); err != nil {
		t.Fatal(err)
	}
	if err := f.Pin("i-1", one); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := f.Pin("i-1", two); err != ErrHostKey {
		t.Errorf("another: %v", err)
	}
	if k, err := f.Key("i-1"); !same(k, one) || err != nil {
		t.Errorf("%v, %v", k, err)
	}
	if err := f.Pin("i-2", two); err != nil {
		t.Fatal(err)
	}
	if err := f.Prune(0, func(id string) bool { return id == "i-2" }); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(string(f))
	if err != nil || len(left) != 1 || left[0].Name() != "i-2" {
		t.Errorf("%v, %v", left, err)
	}
	if err := os.WriteFile(string(f)+"/i-3", []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Key("i-3"); err == nil || !strings.Contains(err.Error(), "is no host key") {
		t.Error(err)
	}
}

func newKey(t *testing.T) ssh.PublicKey {
	t.Helper()
	signer := newSigner(t)
	return signer.PublicKey()
}
