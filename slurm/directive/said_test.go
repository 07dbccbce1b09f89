package directive

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

var site = Defaults{Reserve: 5 << 30, Layers: []Layer{
	{Source: Source{Pool, "c6i"}, Settings: []Setting{{"dir", "/fsx/%u", 40}, {"keep", "3", 41}}},
	{Source: Source{Partition, "cloud"}, Settings: []Setting{{"strategy", "preemptive", 50}}},
	{Source: Source{Kind: Site}, Settings: []Setting{{"dir", "/nfs", 12}, {"interval", "10m", 13}, {"signal", "USR1", 14}}},
}}

func TestSaid(t *testing.T) {
	tests := []struct {
		name string
		said Said
		want Directive
		err  string
	}{
		{name: "nothing", said: Said{}, want: Directive{Method: None, Strategy: None, Retries: 5}},
		{name: "all places",
			said: Said{Script: "#!/bin/sh\n#BURST ckpt=dmtcp keep=4 grace=1m retries=1\n", Comment: "burst: retries=2 label=x", Options: []string{"scr", "label=y"}, Site: site},
			want: Directive{Method: SCR, Strategy: Preemptive, Dir: "/fsx/%u", Keep: 4, Signal: "USR1", Grace: time.Minute, Retries: 2, Label: "y"}},
		{name: "a site that speaks for its users",
			said: Said{Site: Defaults{Layers: []Layer{{Source: Source{Kind: Script}, Settings: []Setting{{"ckpt", "criu", 1}}}}}},
			want: Directive{Method: None, Strategy: None, Retries: 5}},
		{name: "the site's part of the comment is below the user's words and a pool's, over a partition's",
			said: Said{Script: "#BURST grace=1m\n", Comment: "burst-site: ckpt=dmtcp strategy=both signal=USR2 keep=7 retries=3 burst: retries=2", Site: site},
			want: Directive{Method: DMTCP, Strategy: Both, Interval: 10 * time.Minute, Dir: "/fsx/%u", Keep: 3, Signal: "USR2", Grace: time.Minute, Retries: 2}},
		{name: "what this version does not know in the site's part", said: Said{Comment: "burst-site: ckpt=tomato colour=red keep=4 keep=5 retries=3"},
			want: Directive{Method: None, Strategy: None, Retries: 3}},
		{name: "the site's part lacks something", said: Said{Comment: "burst-site: ckpt=signal"}, err: "site's part of the job comment ckpt: signal needs a signal"},
		{name: "wrong script", said: Said{Script: "#BURST ckpt=x", Comment: "burst: y"}, err: `line 1: #BURST ckpt: "x" is not one of`},
		{name: "wrong comment", said: Said{Comment: "burst: y"}, err: `job comment: "y" is not key=value`},
		{name: "wrong option", said: Said{Options: []string{"x"}}, err: `--ckpt ckpt: "x" is not one of`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.said.Merge()
			check(t, got.Directive, err, tt.want, tt.err)
		})
	}
}

// What burstd sends arrives as it was, and a job gets the same from it.
func TestDefaultsOverAWire(t *testing.T) {
	wire, err := json.Marshal(site)
	if err != nil {
		t.Fatal(err)
	}
	var got Defaults
	if err := json.Unmarshal(wire, &got); err != nil || !reflect.DeepEqual(got, site) {
		t.Fatalf("%s\nbecame %+v, %v", wire, got, err)
	}
	here, err := Said{Script: "#BURST ckpt=dmtcp", Site: site}.Merge()
	if err != nil {
		t.Fatal(err)
	}
	there, err := Said{Script: "#BURST ckpt=dmtcp", Site: got}.Merge()
	if err != nil || !reflect.DeepEqual(here, there) {
		t.Errorf("%+v, %v; want %+v", there, err, here)
	}
	// A burstd of a later version says more.
	later := strings.Replace(string(wire), `"kind":"site"`, `"kind":"site","since":7`, 1)
	later = strings.Replace(later, `"key":"interval"`, `"key":"cadence"`, 1)
	if err := json.Unmarshal([]byte(later), &got); err != nil {
		t.Fatal(err)
	}
	m, err := Said{Script: "#BURST ckpt=dmtcp strategy=both", Site: got}.Merge()
	if err != nil || m.Dir != "/fsx/%u" || m.Interval != 0 || !strings.Contains(m.Unused[len(m.Unused)-1].Why, "known are") {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestOwn: what makes no sense without the site may make sense with it.
func TestOwn(t *testing.T) {
	for _, c := range []struct{ said, method, key, err string }{
		{"keep=4 interval=5m", None, "keep", ""},
		{"ckpt=signal files=out", BySignal, "files", ""},
		{"keep=0", "", "", "keep"},
		{"ckpt=dmtcp restart=x", "", "", "is for ckpt=command"},
		{"ckpt=dmtcp strategy=preemptive interval=5m", "", "", "is for strategy=periodic"},
	} {
		said := Said{Script: "#BURST " + c.said}
		m, err := said.Own()
		if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.said, err)
		}
		if err != nil {
			continue
		}
		if m.Method != c.method || m.From[c.key].Kind != Script || m.From["dir"].Kind != Default {
			t.Errorf("%s: %+v", c.said, m)
		}
		if _, err := said.Merge(); err == nil {
			t.Errorf("%s: without the site it goes together", c.said)
		}
	}
}

// TestOwnIsTheUsers: the site's part of the comment is none of it.
func TestOwnIsTheUsers(t *testing.T) {
	said := Said{Script: "#BURST container=x.sif", Comment: "burst-site: ckpt=dmtcp signal=USR1 burst: retries=2"}
	own, err := said.Own()
	if err != nil || own.Method != None || own.Signal != "" || own.From["ckpt"].Kind != Default || own.Retries != 2 {
		t.Errorf("%+v, %v", own, err)
	}
	if m, err := said.Merge(); err != nil || m.Method != DMTCP || m.From["ckpt"].Kind != Submitted || m.Startles() {
		t.Errorf("%+v, %v", m, err)
	}
	said.Script = "#BURST ckpt=scr"
	if m, err := said.Merge(); err != nil || m.Method != SCR || !m.Startles() {
		t.Errorf("the site's signal would kill the program: %+v, %v", m, err)
	}
}

// TestSettings: merged alone they give the same.
func TestSettings(t *testing.T) {
	said := Said{Script: "#BURST ckpt=signal keep=4 files=\"a b/*.c\"", Comment: "burst: retries=2 label=x", Site: site}
	m, err := said.Merge()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Merge(Layer{Source: Source{Kind: Pool}, Settings: m.Settings()})
	if err != nil || again.Directive != m.Directive {
		t.Errorf("%+v, %v, want %+v", again.Directive, err, m.Directive)
	}
}
