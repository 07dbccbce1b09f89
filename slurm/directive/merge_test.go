package directive

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// layer is one of settings as they are written: "site signal=USR1".
func layer(t *testing.T, text string) Layer {
	t.Helper()
	kind, rest, _ := strings.Cut(text, " ")
	settings, err := split(rest, 0)
	if err != nil {
		t.Fatal(err)
	}
	if kind != string(Option) && kind != string(Comment) {
		for i := range settings {
			settings[i].Line = 7
		}
	}
	l := Layer{Source: Source{Kind: Kind(kind)}, Settings: settings}
	if l.Kind == Pool || l.Kind == Partition {
		l.Name = "p"
	}
	return l
}

func TestMerge(t *testing.T) {
	nothing := Directive{Method: None, Strategy: None, Retries: 5}
	dmtcp := Directive{Method: DMTCP, Strategy: Both, Dir: "burst-checkpoints", Keep: 2, Retries: 5}
	with := func(d Directive, change func(d *Directive)) Directive { change(&d); return d }
	tests := []struct {
		name   string
		layers []string
		want   Directive
		from   map[string]string
		unused []string
		err    string
	}{
		{name: "nothing", want: nothing, from: map[string]string{"ckpt": "Burst's default", "label": "Burst's default"}},
		{name: "the site's signal", layers: []string{"site signal=USR1"},
			want: with(nothing, func(d *Directive) { d.Signal, d.Grace = "USR1", 20*time.Second }),
			from: map[string]string{"signal": "site, line 7 of burst.toml", "grace": "Burst's default"}},
		{name: "a method alone", layers: []string{"script ckpt=dmtcp"}, want: dmtcp,
			from: map[string]string{"ckpt": "script, line 7", "strategy": "Burst's default", "keep": "Burst's default"}},
		{name: "set to the default is set", layers: []string{"script ckpt=dmtcp keep=2", "site keep=4"}, want: dmtcp,
			from: map[string]string{"keep": "script, line 7"}, unused: []string{"site keep=4: it is set by the script, line 7"}},
		{name: "every place, in any order",
			layers: []string{"site ckpt=criu keep=6 retries=9", "partition ckpt=scr keep=5 dir=/p", "pool ckpt=mana keep=4 strategy=none", "comment ckpt=dmtcp label=x",
				"script ckpt=signal signal=TERM", "option interval=5m strategy=periodic"},
			want: Directive{Method: DMTCP, Strategy: Periodic, Interval: 5 * time.Minute, Dir: "/p", Keep: 4, Signal: "TERM", Grace: 20 * time.Second, Retries: 9, Label: "x"},
			from: map[string]string{"ckpt": "job comment", "strategy": "option --ckpt", "keep": "pool p, line 7 of burst.toml",
				"dir": "partition p, line 7 of burst.toml", "retries": "site, line 7 of burst.toml", "signal": "script, line 7"},
			unused: []string{"script ckpt=signal: it is set by the job comment", "pool ckpt=mana: it is set by the job comment", "pool strategy=none: it is set by the option --ckpt",
				"partition ckpt=scr: it is set by the job comment", "partition keep=5: it is set by the pool p, line 7 of burst.toml",
				"site ckpt=criu: it is set by the job comment", "site keep=6: it is set by the pool p, line 7 of burst.toml"}},
		{name: "an admin's details wait for a method", layers: []string{"site strategy=periodic interval=10m dir=/s keep=3"}, want: nothing,
			unused: []string{"site strategy=periodic: " + needsMethod, "site interval=10m: " + needsMethod, "site dir=/s: " + needsMethod, "site keep=3: " + needsMethod}},
		{name: "an admin's details for a user's method", layers: []string{"script ckpt=dmtcp", "site strategy=periodic interval=10m dir=/s keep=3"},
			want: with(dmtcp, func(d *Directive) {
				d.Strategy, d.Interval, d.Dir, d.Keep = Periodic, 10*time.Minute, "/s", 3
			})},
		{name: "details of another method", layers: []string{"option dmtcp=", "script ckpt=command restart=a checkpoint=b"}, err: "--ckpt dmtcp: unknown key"},
		{name: "an option's method over the script's commands", layers: []string{"option ckpt=dmtcp", "script ckpt=command restart=a checkpoint=b"}, want: dmtcp,
			unused: []string{"script ckpt=command: it is set by the option --ckpt", "script checkpoint=b: is for ckpt=command", "script restart=a: is for ckpt=command"}},
		{name: "the script's strategy over the site's interval", layers: []string{"script ckpt=dmtcp strategy=preemptive", "site interval=10m"},
			want: with(dmtcp, func(d *Directive) { d.Strategy = Preemptive }), unused: []string{"site interval=10m: is for strategy=periodic or both"}},
		{name: "ckpt=none turns all off", layers: []string{"script ckpt=none strategy=both interval=5m dir=/x files=a signal=USR1", "site grace=1m"},
			want: with(nothing, func(d *Directive) { d.Signal, d.Grace = "USR1", 20*time.Second }),
			unused: []string{"script strategy=both: ckpt=none turns it off", "script interval=5m: ckpt=none turns it off", "script dir=/x: ckpt=none turns it off",
				"script files=a: ckpt=none turns it off", "site grace=1m: it goes with another signal"}},
		{name: "a user's grace for the site's signal", layers: []string{"script grace=1m", "site signal=USR2 grace=5s"},
			want: with(nothing, func(d *Directive) { d.Signal, d.Grace = "USR2", time.Minute })},
		{name: "signal", layers: []string{"script ckpt=signal signal=USR1 files='a b*'"},
			want: with(dmtcp, func(d *Directive) { d.Method, d.Signal, d.Grace, d.Files = BySignal, "USR1", 20*time.Second, "a b*" })},
		{name: "signal of the site", layers: []string{"script ckpt=signal", "site signal=USR1"},
			want: with(dmtcp, func(d *Directive) { d.Method, d.Signal, d.Grace = BySignal, "USR1", 20*time.Second })},
		{name: "blcr", layers: []string{"script ckpt=command preset=blcr"}, want: with(dmtcp, func(d *Directive) { d.Method, d.Preset = ByCommand, BLCR })},
		{name: "not what the site has", layers: []string{"script after=none", "site after=power_down"},
			want: with(nothing, func(d *Directive) { d.After = None }), unused: []string{"site after=power_down: it is set by the script, line 7"}},
		{name: "a step is not the job", layers: []string{"option ckpt=dmtcp after=power_down"}, err: "--ckpt after: is for the whole job, not for a step"},
		{name: "free of a method", layers: []string{"script retries=0 label=x after=power_down"},
			want: with(nothing, func(d *Directive) { d.Retries, d.Label, d.After = 0, "x", PowerDown })},

		{name: "interval without periodic", layers: []string{"script ckpt=dmtcp strategy=preemptive interval=5m"}, err: "line 7: #BURST interval: is for strategy=periodic or both"},
		{name: "interval over the script's strategy", layers: []string{"option interval=5m", "script ckpt=dmtcp strategy=none"}, err: "--ckpt interval: is for strategy=periodic or both"},
		{name: "interval without a method", layers: []string{"comment interval=5m"}, err: "job comment interval: needs a method"},
		{name: "strategy without a method", layers: []string{"script strategy=both"}, err: "line 7: #BURST strategy: needs a method"},
		{name: "dir without a method", layers: []string{"script dir=/x"}, err: "line 7: #BURST dir: needs a method"},
		{name: "restart without command", layers: []string{"script ckpt=dmtcp restart=x"}, err: "line 7: #BURST restart: is for ckpt=command"},
		{name: "files without signal", layers: []string{"script ckpt=scr files=x"}, err: "line 7: #BURST files: is for ckpt=signal"},
		{name: "preset without command", layers: []string{"script preset=blcr"}, err: "line 7: #BURST preset: is for ckpt=command"},
		{name: "command without restart", layers: []string{"script ckpt=command checkpoint=a"}, err: "line 7: #BURST ckpt: command needs checkpoint= and restart="},
		{name: "ckpt=signal without signal", layers: []string{"script ckpt=signal"}, err: "line 7: #BURST ckpt: signal needs a signal"},
		{name: "ckpt=signal of the batch script", layers: []string{"script ckpt=signal signal=B:USR1"}, err: "write signal=USR1"},
		{name: "a pool's method without its signal", layers: []string{"pool ckpt=signal"}, err: "pool p, line 7 of burst.toml ckpt: signal needs a signal"},
		{name: "grace alone", layers: []string{"script grace=5s"}, err: "line 7: #BURST grace: needs a signal"},
		{name: "what a newer burstd sends", layers: []string{"script ckpt=dmtcp", "pool keep=many", "site colour=red keep=3", "region dir=/x"},
			want: with(dmtcp, func(d *Directive) { d.Keep = 3 }),
			unused: []string{"region dir=/x: this version of Burst knows no such place", `pool keep=many: "many" is not a number from 1 to 100`,
				"site colour=red: unknown key; known are " + known()}},

		{name: "the site signals a step, the job its batch script", layers: []string{"script signal=B:USR2", "site ckpt=signal signal=USR1 strategy=both"},
			want: with(nothing, func(d *Directive) { d.Signal, d.Batch, d.Grace = "USR2", true, 20*time.Second }),
			unused: []string{"site signal=USR1: it is set by the script, line 7", "site ckpt=signal: the job's own signal is for its batch script",
				"site strategy=both: " + needsMethod}},
		{name: "a user's time for a signal of the comment", layers: []string{"comment signal=USR2", "script signal=USR1 grace=1m"},
			want:   with(nothing, func(d *Directive) { d.Signal, d.Grace = "USR2", time.Minute }),
			unused: []string{"script signal=USR1: it is set by the job comment"}},
		{name: "the user's tool in place of the site's", layers: []string{"script ckpt=command preset=blcr", "pool run=r restart=a checkpoint=b setup=s"},
			want: with(dmtcp, func(d *Directive) { d.Method, d.Preset, d.Setup = ByCommand, BLCR, "s" }),
			unused: []string{"pool run=r: it goes with the commands of another tool", "pool checkpoint=b: it goes with the commands of another tool",
				"pool restart=a: it goes with the commands of another tool"}},
		{name: "the pool's tool in place of the site's", layers: []string{"pool ckpt=command restart=a checkpoint=b", "site preset=blcr"},
			want:   with(dmtcp, func(d *Directive) { d.Method, d.Restart, d.Checkpoint = ByCommand, "a", "b" }),
			unused: []string{"site preset=blcr: it goes with the commands of another tool"}},
		{name: "the user's step with the site's tool", layers: []string{"script run=r", "site ckpt=command restart=a checkpoint=b"},
			want: with(dmtcp, func(d *Directive) { d.Method, d.Run, d.Restart, d.Checkpoint = ByCommand, "r", "a", "b" })},
		{name: "an option and the script are one user's", layers: []string{"option restart=c", "script ckpt=command restart=a checkpoint=b"},
			want: with(dmtcp, func(d *Directive) { d.Method, d.Restart, d.Checkpoint = ByCommand, "c", "b" })},
		{name: "half a tool", layers: []string{"script restart=c", "site ckpt=command restart=a checkpoint=b"}, err: "line 7: #BURST restart: ckpt=command needs checkpoint= and restart="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var layers []Layer
			for _, text := range tt.layers {
				layers = append(layers, layer(t, text))
			}
			got, err := Merge(layers...)
			check(t, got.Directive, err, tt.want, tt.err)
			for key, want := range tt.from {
				if o := got.From[key].String(); o != want {
					t.Errorf("%s is from %q, want %q", key, o, want)
				}
			}
			var unused []string
			for _, u := range got.Unused {
				unused = append(unused, fmt.Sprintf("%s %s=%s: %s", u.From.Kind, u.Key, u.Value, u.Why))
			}
			if tt.unused != nil && !slices.Equal(unused, tt.unused) {
				t.Errorf("unused %q\nwant   %q", unused, tt.unused)
			}
			if err == nil && len(got.From) != len(Keys()) {
				t.Errorf("From has %d keys of %d", len(got.From), len(Keys()))
			}
		})
	}
}

func TestStartles(t *testing.T) {
	for _, tt := range []struct {
		layers []string
		want   bool
	}{
		{[]string{"script ckpt=dmtcp", "site signal=USR1"}, true},
		{[]string{"script ckpt=dmtcp signal=USR1"}, false},
		{[]string{"script ckpt=signal", "site signal=USR1"}, false},
		{[]string{"script retries=1", "site signal=USR1"}, false},
		{[]string{"script retries=1", "site signal=USR1 ckpt=dmtcp"}, false},
		{[]string{"script ckpt=none", "site signal=USR1"}, true},
		{[]string{"script ckpt=none signal=USR1"}, false},
		{[]string{"site signal=USR1 ckpt=none"}, false},
		{[]string{"script ckpt=dmtcp"}, false},
	} {
		var layers []Layer
		for _, text := range tt.layers {
			layers = append(layers, layer(t, text))
		}
		m, err := Merge(layers...)
		if err != nil || m.Startles() != tt.want {
			t.Errorf("%q: %t, %v", tt.layers, m.Startles(), err)
		}
	}
}

// TestUnnamed: a signal that nobody but the site has named is not for a job that is not requeued.
func TestUnnamed(t *testing.T) {
	for _, tt := range []struct {
		layers []string
		want   bool
	}{
		{[]string{"script retries=1", "site signal=USR1"}, true},
		{[]string{"script ckpt=none", "site signal=USR1"}, true},
		{[]string{"script retries=1", "site ckpt=signal signal=USR1"}, true},
		{[]string{"script ckpt=signal", "site signal=USR1"}, false},
		{[]string{"script signal=USR2", "site signal=USR1"}, false},
		{[]string{"script retries=1"}, false},
	} {
		var layers []Layer
		for _, text := range tt.layers {
			layers = append(layers, layer(t, text))
		}
		m, err := Merge(layers...)
		if err != nil || m.Unnamed() != tt.want {
			t.Errorf("%q: %t, %v", tt.layers, m.Unnamed(), err)
		}
	}
}

func TestReadOptions(t *testing.T) {
	tests := []struct {
		name   string
		values []string
		want   []Setting
		err    string
	}{
		{name: "none"},
		{name: "a method", values: []string{"dmtcp"}, want: []Setting{{Key: "ckpt", Value: "dmtcp"}}},
		{name: "a method and more", values: []string{" dmtcp interval=5m", "keep=3"},
			want: []Setting{{Key: "ckpt", Value: "dmtcp"}, {Key: "interval", Value: "5m"}, {Key: "keep", Value: "3"}}},
		{name: "two methods", values: []string{"dmtcp", "scr"}, err: "--ckpt ckpt: is set twice"},
		{name: "not a method", values: []string{"blcr"}, err: `--ckpt ckpt: "blcr" is not one of`},
		{name: "no value", values: []string{"keep=3 dmtcp"}, err: `--ckpt: "dmtcp" is not key=value`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadOptions(tt.values...)
			if tt.err == "" {
				if err != nil || !slices.Equal(got.Settings, tt.want) {
					t.Errorf("got %+v, %v", got, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

// What every example says is read, and comes back as it was written.
func TestKeys(t *testing.T) {
	for _, k := range Keys() {
		value, rest, err := unquote(k.Example)
		if err != nil || rest != "" {
			t.Fatalf("%s: %v", k.Name, err)
		}
		if err := Check(k.Name, value); err != nil {
			t.Errorf("%s=%s: %v", k.Name, k.Example, err)
		}
		d := Directive{Method: DMTCP, Strategy: Both}
		if err := k.set(&d, value); err != nil || k.get(&d) != strings.Replace(value, "60s", "1m", 1) {
			t.Errorf("%s=%s comes back as %q: %v", k.Name, k.Example, k.get(&d), err)
		}
	}
}

func TestFolder(t *testing.T) {
	n := Names{User: "alice", Home: "/home/alice", Work: "/jobs", JobName: "a/b", Job: "18", Array: "17", Task: "1"}
	tests := []struct{ name, dir, want string }{
		{"none", "", ""},
		{"absolute", "/scratch/x/", "/scratch/x"},
		{"patterns", "/s/%u/%x/%j/%A_%a/100%%", "/s/alice/a_b/18/17_1/100%"},
		{"home", "~/ckpt/%j", "/home/alice/ckpt/18"},
		{"home alone", "~", "/home/alice"},
		{"relative", "burst-checkpoints", "/jobs/burst-checkpoints"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (Directive{Dir: tt.dir}).Folder(n); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("hostile names", func(t *testing.T) {
		got := Directive{Dir: "/s/%x/%u/%A_%a"}.Folder(Names{JobName: "..", User: "../../etc", Job: "5"})
		if got != "/s/_/.._.._etc/5_0" {
			t.Errorf("got %q", got)
		}
	})
}

func FuzzMerge(f *testing.F) {
	f.Add("ckpt=dmtcp strategy=both", "interval=5m signal=USR1", "grace=20s keep=3")
	f.Add("ckpt=command restart='a b'", "checkpoint=\"c\"", "ckpt=none dir=~/x")
	f.Fuzz(func(t *testing.T, option, script, site string) {
		var layers []Layer
		for kind, text := range map[Kind]string{Option: option, Script: script, Site: site} {
			settings, err := split(text, 1)
			if err != nil {
				return
			}
			layers = append(layers, Layer{Source: Source{Kind: kind}, Settings: settings})
		}
		m, err := Merge(layers...)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || strings.Contains(strings.TrimSpace(e.From.String()), "\n") {
				t.Fatalf("%v is no *Error", err)
			}
			return
		}
		if len(m.From) != len(Keys()) || m.Method == "" || m.Strategy == "" || (m.Method == None) != (m.Dir == "") || (m.Signal == "") != (m.Grace == 0) ||
			m.Interval != 0 && !m.Periodical() || m.Method == None && m.Strategy != None {
			t.Fatalf("%+v", m)
		}
		// It is the same from the other end of a wire.
		wire, err := json.Marshal(layers)
		if err != nil {
			t.Fatal(err)
		}
		var again []Layer
		if err := json.Unmarshal(wire, &again); err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(option + script + site) {
			return // JSON holds text only
		}
		n, err := Merge(again...)
		if err != nil || n.Directive != m.Directive || !reflect.DeepEqual(n.From, m.From) {
			t.Fatalf("%+v, %v; want %+v", n, err, m)
		}
	})
}
