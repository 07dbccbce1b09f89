package step

import (
	"fmt"
	"strings"
	"testing"
)

func TestComponents(t *testing.T) {
	for _, test := range []struct {
		line, want string
	}{
		{"a.out", "[0]"},
		{"--het-group=1 a.out", "[1]"},
		{"--het-group 0-1,3 a.out", "[0 1 3]"},
		{"--het-group=[2-3] --het-group=1,0 a.out", "[0 1]"},
		{"a.out : -n2 b.out", "[0 1]"},
		{"--het-group=2 a.out : --het-group=0 b.out", "[0 2]"},
		{"--het-group=x a.out", "error"},
		{"--het-group=3-1 a.out", "error"},
		{"--het-group=0-4000000000 a.out", "error"},
	} {
		c, err := Parse(strings.Fields(test.line), Options(""))
		if err != nil {
			t.Fatal(err)
		}
		got := "error"
		if all, err := c.Components(); err == nil {
			got = fmt.Sprint(all)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.line, got, test.want)
		}
	}
}
