package vultr_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// Each instance is told a word of its own, by a script that a shell takes and that
// root alone can read afterwards; the next burstd knows it too.
func TestWord(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	dir := t.TempDir()
	open := func() *vultr.Provider {
		return over(t, c, func(v *vultr.Config) {
			v.Dir = dir
			v.Pools = map[string]vultr.Pool{"pool": {Word: true}, "other": {}}
		})
	}
	p := open()
	for token, change := range map[string]func(*cloud.LaunchRequest){
		"t-1": func(r *cloud.LaunchRequest) { r.Count = 2 },
		"t-2": func(r *cloud.LaunchRequest) { r.Offering.Type = vultrtest.Metal },
		"t-3": func(r *cloud.LaunchRequest) { r.Pool = "other" },
	} {
		r := ask(token, 1)
		r.UserData = ""
		change(&r)
		if _, err := p.Launch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	words := map[string]bool{}
	for _, m := range c.Machines() {
		if strings.HasPrefix(m.Label, "burst-t-3") {
			if m.UserData != "" {
				t.Errorf("%s, of a pool without words, is told %q", m.Label, m.UserData)
			}
			continue
		}
		word, err := open().Word(t.Context(), m.ID) // another process
		if err != nil || len(word) < 40 || words[word] || !strings.Contains(m.UserData, "echo "+word+" >") {
			t.Fatalf("%s: the word %q, %v, of the user data %q", m.Label, word, err, m.UserData)
		}
		words[word] = true
		root := t.TempDir()
		script := strings.ReplaceAll(m.UserData, "/var/lib/burst", root+"/burst")
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("the user data: %v: %s", err, out)
		}
		text, err := os.ReadFile(root + "/burst/word")
		info, serr := os.Stat(root + "/burst/word")
		if err != nil || serr != nil || string(text) != word+"\n" || info.Mode().Perm() != 0o600 {
			t.Errorf("the instance keeps %q, %v, %v", text, err, serr)
		}
	}
	if len(words) != 3 {
		t.Errorf("there are %d words, want 3", len(words))
	}
	path := filepath.Join(dir, "words.secret")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
	if _, err := p.Word(t.Context(), vultrtest.VPC); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("the word of what is no instance: %v", err)
	}
	if err := os.WriteFile(path, []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open().Launch(t.Context(), ask("t-4", 1)); err == nil || !strings.Contains(err.Error(), "is cut off: remove it") || len(c.Machines()) != 4 {
		t.Errorf("with half a secret: %v, %d machines", err, len(c.Machines()))
	}
}
