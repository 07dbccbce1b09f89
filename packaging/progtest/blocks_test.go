package progtest

import (
	"reflect"
	"strings"
	"testing"
)

func TestShell(t *testing.T) {
	for text, want := range map[string]string{
		"burst check  # and more\n":                                   "burst,check",
		"a 'b c' \"d $e\" \\\n  f\ng":                                 "a,b c,d $e,f;g",
		"a | b && c; d &\nwait":                                       "a;b;c;d;wait",
		"a >out 2>&1 <in >>x y":                                       "a,y",
		"sudo -u slurm env A=b C=d burst image list":                  "burst,image,list",
		"x=$(burst jobs | wc -l) && echo \"$(burst nodes) $((1+1))\"": "burst,jobs;wc,-l;burst,nodes;echo,$() $((1+1))",
		"if burst check; then exec burst-srun x; fi":                  "burst,check;burst-srun,x;fi",
		"(a; b) && c":  "a;b;c",
		"cp a b#c '#'": "cp,a,b#c,#",
	} {
		var got []string
		for _, c := range Shell(text) {
			got = append(got, strings.Join(c.Words, ","))
		}
		if have := strings.Join(got, ";"); have != want {
			t.Errorf("%q is %q, want %q", text, have, want)
		}
	}
	if all := Shell("a\n\nb \\\n c\nd"); len(all) != 3 || all[1].Line != 2 || all[2].Line != 4 {
		t.Errorf("lines: %+v", all)
	}
}

func TestFenced(t *testing.T) {
	text := "# A\n\n- a list\n\n   ```toml pool.x\n   a = 1\n     b = 2\n   ```\n\n    indented\n    more\n\n```console\n# burst check\nok\n$ ls\n```\n```sh\nopen\n"
	all, wrong := fenced("p.md", text)
	want := []Block{
		{File: "p.md", Line: 6, Lang: "toml", Of: "pool.x", Text: "a = 1\n  b = 2\n"},
		{File: "p.md", Line: 14, Lang: "console", Text: "# burst check\nok\n$ ls\n"},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("blocks %+v", all)
	}
	if len(wrong) != 2 || !strings.HasPrefix(wrong[0], "p.md:10: ") || !strings.HasPrefix(wrong[1], "p.md:19: ") {
		t.Errorf("wrong: %q", wrong)
	}
	if got := want[1].Commands(); len(got) != 2 || got[1].Line != 2 || got[0].Name() != "burst" {
		t.Errorf("commands %+v", got)
	}
}
