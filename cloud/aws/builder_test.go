package aws

import (
	"net/url"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
)

// TestBuilderType: where the end of the setup is read from the console, the instance is of a type that
// shows it while it runs.
func TestBuilderType(t *testing.T) {
	types := fixed("<instanceTypeSet><item><instanceType>m4.large</instanceType><hypervisor>xen</hypervisor></item>" +
		"<item><instanceType>c4.large</instanceType><hypervisor>xen</hypervisor></item>" +
		"<item><instanceType>c6i.large</instanceType><hypervisor>nitro</hypervisor></item>" +
		"<item><instanceType>c6i.metal</instanceType></item></instanceTypeSet>")
	asked := ""
	give := func(form url.Values, body string) (int, string) {
		asked = strings.Join([]string{form.Get("Filter.1.Name"), form.Get("Filter.1.Value.1")}, " ")
		return types(form, body)
	}
	for _, c := range []struct {
		name    string
		types   []string
		console bool
		give    answer
		want    string // the type, or a part of the error
		kind    cloud.Kind
	}{
		{"the first", []string{"c6i.large", "m4.large"}, true, give, "c6i.large", ""},
		{"the second", []string{"m4.large", "c6i.large"}, true, give, "c6i.large", ""},
		{"bare metal", []string{"m4.large", "c6i.metal"}, true, give, "c6i.metal", ""},
		{"over SSH", []string{"m4.large", "c6i.large"}, false, give, "m4.large", ""},
		{"none", []string{"m4.large", "c4.large"}, true, give, "not on Nitro", cloud.Invalid},
		{"not allowed", []string{"m4.large"}, true, refusal(403, "UnauthorizedOperation", "no"), "show their consoles", cloud.Auth},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = ""
			p, _ := answering(t, Config{}, map[string]answer{"DescribeInstanceTypes": c.give})
			got, err := p.BuilderType(t.Context(), cloud.BuilderNeeds{Types: c.types, Console: c.console})
			if c.kind == "" && (err != nil || got != c.want) || c.kind != "" && (cloud.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if want := "instance-type " + c.types[0]; c.console && c.kind != cloud.Auth && asked != want {
				t.Errorf("asked for %q, want %q", asked, want)
			}
		})
	}
}
