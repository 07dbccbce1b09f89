package directive

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// parse is what a script asks, alone.
func parse(script string) (Directive, error) {
	l, err := ReadScript(script)
	return l.directive(), err
}

func parseComment(comment string) (Directive, error) {
	l, _, err := ReadComment(comment)
	return l.directive(), err
}

func TestReadScript(t *testing.T) {
	usr1 := Directive{Signal: "USR1"}
	tests := []struct {
		name, script string
		want         Directive
		err          string
	}{
		{name: "empty", script: ""},
		{name: "no directive", script: "#!/bin/bash\n#SBATCH -N4\nsrun heat\n"},
		{name: "signal", script: "#!/bin/bash\n#BURST signal=USR1\nsrun heat\n", want: usr1},
		{name: "both", script: "#!/bin/bash\n#BURST signal=USR1 grace=2m30s\n", want: Directive{Signal: "USR1", Grace: 150 * time.Second}},
		{name: "seconds", script: "#BURST signal=USR1 grace=90", want: Directive{Signal: "USR1", Grace: 90 * time.Second}},
		{name: "two lines, any order", script: "#!/bin/sh\n\n# text\n#BURST grace=5s\n  #BURST\tsignal=term \n", want: Directive{Signal: "TERM", Grace: 5 * time.Second}},
		{name: "SIG and batch", script: "#BURST signal=B:SIGUSR2", want: Directive{Signal: "USR2", Batch: true}},
		{name: "quotes", script: `#BURST signal="USR1" grace='20s'`, want: Directive{Signal: "USR1", Grace: 20 * time.Second}},
		{name: "CRLF", script: "#!/bin/bash\r\n#BURST signal=USR1\r\nsleep 1\r\n", want: usr1},
		{name: "after the first command", script: "#!/bin/bash\ntrue\n#BURST nonsense\n"},
		{name: "another word", script: "#BURSTING signal=USR1\n#BURST-OFF x\n#burst signal=USR1\n"},
		{name: "bare", script: "#BURST\n#BURST   \n"},
		{name: "unknown key", script: "#!/bin/bash\n#SBATCH -N1\n#BURST sginal=USR1\n", err: "line 3: #BURST sginal: unknown key; known are ckpt, strategy, interval, dir"},
		{name: "hostile key", script: "#BURST a\x1b[2Jb=1", err: "line 1: #BURST a?[2Jb: unknown key"},
		{name: "a word that has no end", script: "#BURST " + strings.Repeat("x", 1<<20), err: strings.Repeat("x", 300)},
		{name: "no value", script: "#BURST signal USR1", err: `line 1: #BURST: "signal" is not key=value`},
		{name: "no key", script: "#BURST =USR1", err: `line 1: #BURST: "=USR1" is not key=value`},
		{name: "not a signal", script: "#BURST signal=FOO", err: `line 1: #BURST signal: "FOO" is not one of HUP`},
		{name: "KILL cannot be caught", script: "#BURST signal=KILL", err: `"KILL" is not one of`},
		{name: "negative grace", script: "#BURST signal=USR1 grace=-1s", err: `line 1: #BURST grace: "-1s" is not a time`},
		{name: "a time that has no end", script: "#BURST interval=" + strings.Repeat("1ns", 1<<15), err: "line 1: #BURST interval: \"1ns1ns"},
		{name: "the longest time", script: "#BURST signal=USR1 grace=" + strings.Repeat("0", 62) + "1s", want: Directive{Signal: "USR1", Grace: time.Second}},
		{name: "one byte more", script: "#BURST signal=USR1 grace=" + strings.Repeat("0", 63) + "1s", err: "is not a time"},
		{name: "huge grace", script: "#BURST signal=USR1 grace=9000h", err: "up to 24h"},
		{name: "grace alone: the signal may be the site's", script: "\n#BURST grace=20s", want: Directive{Grace: 20 * time.Second}},
		{name: "the issue's line", script: "#BURST ckpt=dmtcp strategy=both interval=auto dir=/scratch/%u keep=2 signal=USR1 grace=20s retries=5 label=heat",
			want: Directive{Method: DMTCP, Strategy: Both, Dir: "/scratch/%u", Keep: 2, Signal: "USR1", Grace: 20 * time.Second, Retries: 5, Label: "heat"}},
		{name: "commands", script: "#BURST ckpt=command setup=\"module load x\" run='t run \"a b\"'\n#BURST checkpoint=\"t -o \\\"$D\\\"\" restart=t after=power_down preset=blcr",
			want: Directive{Method: ByCommand, Setup: "module load x", Run: `t run "a b"`, Checkpoint: `t -o "$D"`, Restart: "t", After: PowerDown, Preset: BLCR}},
		{name: "files", script: `#BURST files="out/*.ckpt state"`, want: Directive{Files: "out/*.ckpt state"}},
		{name: "a comment at the end", script: "#BURST signal=USR1 # what heat wants", want: usr1},
		{name: "a # in a value", script: "#BURST dir=/a#b", want: Directive{Dir: "/a#b"}},
		{name: "interval", script: "#BURST strategy=periodic interval=1h30m", want: Directive{Strategy: Periodic, Interval: 90 * time.Minute}},
		{name: "not a method", script: "#BURST ckpt=ulfm", err: `line 1: #BURST ckpt: "ulfm" is not one of none, dmtcp, mana, scr, libburst, criu, signal, command`},
		{name: "not a strategy", script: "#BURST strategy=always", err: `"always" is not one of none, periodic, preemptive, both`},
		{name: "not an interval", script: "#BURST interval=often", err: `"often" is not a time such as 20s or 2m30s, above 0 and up to 168h, or auto`},
		{name: "keep none", script: "#BURST keep=0", err: `"0" is not a number from 1 to 100`},
		{name: "keep after", script: "#BURST keep_after=true", err: `"true" is not one of yes, no`},
		{name: "retries", script: "#BURST retries=-1", err: `"-1" is not a number from 0 to 1000`},
		{name: "label", script: "#BURST label=../x", err: "is not a name of up to 63"},
		{name: "container", script: "#BURST container=docker://host:5000/sim:2", want: Directive{Container: "docker://host:5000/sim:2"}},
		{name: "empty container", script: "#BURST container=", err: "line 1: #BURST container: is empty"},
		{name: "empty dir", script: "#BURST dir=", err: "line 1: #BURST dir: is empty"},
		{name: "pattern in dir", script: "#BURST dir=/x/%N", err: "none of %u"},
		{name: "another's home", script: "#BURST dir=~bob/x", err: "of homes only ~/ is known"},
		{name: "bad pattern of files", script: "#BURST files=a[", err: `"a[" is not a pattern`},
		{name: "files not in shortest form", script: "#BURST files=./heat.ckpt", err: `"./heat.ckpt" is not in its shortest form: write "heat.ckpt"`},
		{name: "files with a slash at the end", script: "#BURST files=out/", err: `write "out"`},
		{name: "files of elsewhere", script: "#BURST files=../x", err: `"../x" is not below the step's folder: name it by an absolute path`},
		{name: "files of a folder itself", script: "#BURST files=.", err: `"." is not a pattern`},
		{name: "empty command", script: `#BURST restart="  "`, err: "restart: is empty"},
		{name: "control character", script: "#BURST restart='a\x01b'", err: "holds a control character"},
		{name: "preset", script: "#BURST preset=x", err: `"x" is not blcr`},
		{name: "stay alone", script: "#BURST stay keep=2 # x", want: Directive{Stay: "yes", Keep: 2}},
		{name: "stay at the end", script: "#BURST keep=2\n#BURST stay", want: Directive{Stay: "yes", Keep: 2}},
		{name: "stay", script: "#BURST stay=no", want: Directive{Stay: "no"}},
		{name: "no other key alone", script: "#BURST keep", err: `"keep" is not key=value`},
		{name: "stay twice", script: "#BURST stay stay=no", err: "stay: is set twice"},
		{name: "after", script: "#BURST after=lunch", err: `"lunch" is not one of power_down, none`},
		{name: "twice", script: "#BURST signal=USR1 signal=USR2", err: "line 1: #BURST signal: is set twice"},
		{name: "twice, two lines", script: "#BURST signal=USR1\n#BURST signal=USR2", err: "line 2: #BURST signal: is set already in line 1"},
		{name: "open quote", script: `#BURST signal="USR1`, err: "line 1: #BURST signal: a quote is not closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(tt.script)
			check(t, got, err, tt.want, tt.err)
		})
	}
}

func TestReadComment(t *testing.T) {
	tests := []struct {
		name, comment string
		want          Directive
		err           string
	}{
		{name: "empty"},
		{name: "not ours", comment: "signal=USR1 for burst: later"},
		{name: "ours", comment: "burst: signal=B:USR1 grace=5s", want: Directive{Signal: "USR1", Batch: true, Grace: 5 * time.Second}},
		{name: "no space", comment: " burst:signal=TERM", want: Directive{Signal: "TERM"}},
		{name: "nothing asked", comment: "burst:"},
		{name: "unknown key", comment: "burst: colour=red", err: "job comment colour: unknown key"},
		{name: "twice", comment: "burst: grace=1s grace=2s", err: "job comment grace: is set twice"},
		{name: "the site's part alone", comment: "burst-site: signal=USR1"},
		{name: "the user's after the site's", comment: "burst-site: signal=USR1 burst:grace=5s # x", want: Directive{Grace: 5 * time.Second}},
		{name: "no user's in the site's quotes", comment: `burst-site: setup="a burst: b" # burst: x`},
		{name: "the site's part is no sentence", comment: "burst-site: project 7", err: `job comment: "project" is not key=value`},
		{name: "no site's after the user's", comment: "burst: grace=5s burst-site: x", err: `job comment: "burst-site:" is not key=value`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseComment(tt.comment)
			check(t, got, err, tt.want, tt.err)
		})
	}
}

func check(t *testing.T, got Directive, err error, want Directive, wantErr string) {
	t.Helper()
	if wantErr == "" {
		if err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), wantErr) || len(err.Error()) > 500 {
		t.Errorf("got %+v, %v; want an *Error with %q", got, err, wantErr)
	}
}

func TestUnquote(t *testing.T) {
	tests := []struct{ name, text, value, rest string }{
		{"plain", "a b", "a", " b"},
		{"double", `"a b" c`, "a b", " c"},
		{"single keeps backslash", `'a \" b'`, `a \" b`, ""},
		{"escaped quote", `"a \" b"`, `a " b`, ""},
		{"joined parts", `a"b c"'d e'`, "ab cd e", ""},
		{"empty", `"" x`, "", " x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			value, rest, err := unquote(tt.text)
			if value != tt.value || rest != tt.rest || err != nil {
				t.Errorf("unquote(%q) = %q, %q, %v", tt.text, value, rest, err)
			}
		})
	}
}

func FuzzReadScript(f *testing.F) {
	f.Add("#!/bin/bash\n#BURST signal=USR1 grace=20s\nsrun heat\n")
	f.Add(`#BURST signal="B:USR1" grace='1m'`)
	f.Add("#BURST a=\"\\")
	f.Add("#BURST ckpt=command checkpoint='a b' restart=c # x\n#BURST strategy=both interval=auto dir=~/%j")
	f.Fuzz(func(t *testing.T, script string) {
		d, err := parse(script)
		var e *Error
		switch {
		case err != nil && (!errors.As(err, &e) || e.Line < 1 || d != Directive{}):
			t.Errorf("ReadScript(%q) = %+v, %v", script, d, err)
		}
		for _, begin := range []string{"burst:", "burst-site:"} {
			if _, _, err := ReadComment(begin + script); err != nil && !errors.As(err, &e) {
				t.Errorf("ReadComment: %v is no *Error", err)
			}
		}
	})
}
