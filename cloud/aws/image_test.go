package aws

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
)

func TestResolveImage(t *testing.T) {
	parameter := func(value string) answer {
		return jsonAnswer(`{"Parameter":{"Name":"/hpc/image","Type":"String","Value":"` + value + `","Version":1}}`)
	}
	for _, c := range []struct {
		name, image string
		parameter   answer
		want        string // the id, or a part of the error
		kind        cloud.Kind
	}{
		{"id", "ami-0123456789abcdef0", nil, "ami-0123456789abcdef0", ""},
		{"parameter", "ssm:/hpc/image", parameter("ami-0aa"), "ami-0aa", ""},
		{"parameter with a line's end", "ssm:/hpc/image", parameter(`ami-0aa\n`), "ami-0aa", ""},
		{"no image", "", nil, "is neither an id", cloud.Invalid},
		{"a name", "rocky-9", nil, "is neither an id", cloud.Invalid},
		{"no path", "ssm:", nil, "names no parameter", cloud.Invalid},
		{"another value", "ssm:/hpc/image", parameter(`{\"image_id\":\"ami-0aa\"}`), "not an image's id", cloud.Invalid},
		{"no parameter", "ssm:/hpc/image", refusal(400, "ParameterNotFound", ""), "SSM parameter /hpc/image in us-east-1", cloud.Invalid},
		{"not allowed", "ssm:/hpc/image", refusal(400, "AccessDeniedException", "no"), "SSM parameter /hpc/image", cloud.Auth},
		{"server fault", "ssm:/hpc/image", refusal(500, "InternalServerError", "no"), "SSM parameter /hpc/image", cloud.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := answering(t, Config{}, map[string]answer{})
			if c.parameter != nil {
				p, _ = answering(t, Config{}, map[string]answer{"GetParameter": c.parameter})
			}
			got, err := p.resolveImage(t.Context(), c.image)
			if c.kind == "" {
				if got != c.want || err != nil {
					t.Errorf("%q, %v; want %q", got, err, c.want)
				}
				return
			}
			if err == nil || cloud.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s with %q", err, c.kind, c.want)
			}
		})
	}
}

func TestResolveImageRemembers(t *testing.T) {
	p, aws := answering(t, Config{}, map[string]answer{"GetParameter": jsonAnswer(`{"Parameter":{"Value":"ami-0aa"}}`)})
	for range 3 {
		if got, err := p.resolveImage(t.Context(), "ssm:/hpc/image"); got != "ami-0aa" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if n := aws.count("GetParameter"); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
}

func TestConsole(t *testing.T) {
	output := func(text string) answer {
		return fixed("<instanceId>i-0aa</instanceId><output>" + base64.StdEncoding.EncodeToString([]byte(text)) + "</output>")
	}
	for _, c := range []struct {
		name string
		give answer
		want string
		kind cloud.Kind
	}{
		{"output", output("cloud-init: no route to host\n"), "cloud-init: no route to host\n", ""},
		{"none yet", fixed("<instanceId>i-0aa</instanceId>"), "", ""},
		{"before Nitro", func(form url.Values, body string) (int, string) {
			if form.Get("Latest") == "true" {
				return refusal(400, "UnsupportedOperation", "This instance type does not support retrieving the latest console logs.")(form, body)
			}
			return output("old")(form, body)
		}, "old", ""},
		{"no such instance", refusal(400, "InvalidInstanceID.NotFound", "no"), "", cloud.Invalid},
		{"no base64", fixed("<output>%%%</output>"), "", cloud.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := answering(t, Config{}, map[string]answer{"GetConsoleOutput": c.give})
			got, err := p.Console(t.Context(), "i-0aa")
			if got != c.want || (err != nil) != (c.kind != "") || err != nil && cloud.KindOf(err) != c.kind {
				t.Errorf("%q, %v; want %q, %s", got, err, c.want, c.kind)
			}
		})
	}
}

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		size       int
		want       string
	}{
		{"all", "one\ntwo\n", 64, "one\ntwo\n"},
		{"from a line's beginning", "one\ntwo\nthree\n", 8, "three\n"},
		{"no line begins", "onetwothree\n", 8, "wothree\n"},
		{"half a letter", "xé", 1, ""},
		{"empty", "", 8, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lastLines([]byte(c.text), c.size); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
