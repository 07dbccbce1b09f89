package vultr

import (
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud"
)

func TestTags(t *testing.T) {
	r := cloud.LaunchRequest{Token: "TOK", Cluster: "c-1", Pool: "vhp", Tags: map[string]string{
		"project": "storm surge, 2026", "größe": "100%", cloud.TagJob: "42", "long": strings.Repeat("x", maxTag), tagNode: "n1", tagCluster: "another", "": "",
	}}
	want := []string{"=", "burst:cluster=c-1", "burst:job=42", "burst:net=vpc", "burst:pool=vhp", "burst:token=TOK", "gr%C3%B6%C3%9Fe=100%25", "project=storm%20surge%2C%202026"}
	got := tagsOf(r, spec{VPC: "v"})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("tags (-want +got):\n%s", d)
	}
	read := readTags(append(got, "people write this", "burst:token=OTHER", "%zz=%4", "a=b=c"))
	if read[tagToken] != "TOK" || read["project"] != "storm surge, 2026" || read["größe"] != "100%" || read["%zz"] != "%4" || read["a"] != "b=c" {
		t.Errorf("read are %v", read)
	}
	if err := CheckTag("burst:x", "y"); err == nil {
		t.Error("a site may write Burst's own tags")
	}
	if CheckTag("", "y") == nil || CheckTag("k", strings.Repeat("é", 22)) == nil || CheckTag("k", strings.Repeat("x", 126)) != nil {
		t.Error("CheckTag does not keep the longest tag")
	}
}

// What is written is read again, whatever it is.
func TestTagsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.StringN(1, 20, 60), rapid.String()).Draw(t, "tags")
		tags := writeTags(want)
		if got := readTags(tags); !maps.Equal(got, want) {
			t.Fatalf("%v is read as %v", want, got)
		}
		for _, tag := range tags {
			if strings.ContainsAny(tag, ", \n\"") || !utf8.ValidString(tag) {
				t.Fatalf("%q has what a tag must not have", tag)
			}
		}
	})
}

func FuzzReadTags(f *testing.F) {
	for _, s := range []string{"burst:token=x", "=", "%", "a=%41%4", "burst:cluster=c\x00", "%FF=%fe"} {
		f.Add(s, "burst:pool=p")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		read := readTags([]string{a, b})
		if _, empty := read[""]; empty {
			t.Errorf("%q, %q: a tag without a key", a, b)
		}
		if again := readTags(writeTags(read)); !maps.Equal(read, again) {
			t.Errorf("%v is read again as %v", read, again)
		}
	})
}

func FuzzReadLabel(f *testing.F) {
	for _, s := range []string{"burst-TOK-0", "burst-t-a-b-99", "burst--1", "burst-x-01", "web server 3", "burst-x-99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, i, ok := readLabel(text)
		if ok && label(token, i) != text {
			t.Errorf("%q is read as %q, %d, which is written as %q", text, token, i, label(token, i))
		}
	})
}
