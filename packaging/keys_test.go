package packaging

import (
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm/directive"
)

// TestDirectives holds burst(1) to the keys that a directive may have.
func TestDirectives(t *testing.T) {
	described := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\.It ([a-z_ ,]+) = `).FindAllStringSubmatch(sections(page(t, "burst.1"), ".Sh")["DIRECTIVES"], -1) {
		for _, key := range strings.Split(m[1], " , ") {
			described[key] = true
		}
	}
	for _, k := range directive.Keys() {
		if !described[k.Name] {
			t.Errorf("burst(1) does not describe the key %s", k.Name)
		}
		delete(described, k.Name)
	}
	for key := range described {
		t.Errorf("burst(1) describes %s, which is no key", key)
	}
}
