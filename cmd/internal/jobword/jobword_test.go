package jobword

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/directive"
)

func TestTell(t *testing.T) {
	now := time.Now()
	row := func(step, dir string, age time.Duration) session.Blessed {
		return session.Blessed{Key: session.Key{Job: 17, Attempt: 1, Step: step}, Answer: session.Answer{Generation: dir, N: 3}, At: now.Add(-age)}
	}
	at := func(dir, step string) string { return dir + "/job-17/step-" + step + "/attempt-1/gen-3" }
	many := func(dir string) (rows []session.Blessed) {
		for i := range 2000 {
			name := fmt.Sprintf("<step-%d>", i)
			d := dir
			if dir == "" {
				d = fmt.Sprintf("/scratch/%d%s", i, strings.Repeat("<", 100))
			}
			rows = append(rows, row(name, at(d, name), time.Duration((i*7)%2000)*time.Minute))
		}
		return rows
	}
	for _, c := range []struct {
		name    string
		rows    []session.Blessed
		folders []string
		steps   int // 0: as many as fit
	}{
		{"nothing", nil, nil, -1},
		{"two of one folder", []session.Blessed{row("0", at("/d", "0"), 0), row("1", at("/d", "1"), time.Hour)}, []string{"/d"}, 2},
		{"the newest's folder first", []session.Blessed{row("0", at("/d", "0"), time.Hour), row("1", at("/e", "1"), 0)}, []string{"/e", "/d"}, 2},
		{"in no folder that is known", []session.Blessed{row("0", "/d/gen-3", 0)}, nil, 1},
		{"in the root", []session.Blessed{row("0", at("", "0"), 0)}, []string{"/"}, 1},
		{"too many", many("/d"), []string{"/d"}, 0},
		{"too many folders", many(""), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Tell(directive.Defaults{Reserve: 7}, c.rows)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(b)
			if err != nil || len(text) > maxBefore {
				t.Errorf("%d bytes, %v", len(text), err)
			}
			if c.steps != 0 {
				if len(b.Blessed) != max(0, c.steps) || !slices.Equal(b.Folders, c.folders) {
					t.Errorf("%+v", b)
				}
				return
			}
			if len(b.Blessed) < 50 || len(text) < maxBefore-1000 {
				t.Errorf("%d steps in %d bytes", len(b.Blessed), len(text))
			}
			var oldest, newestLeft time.Time
			for _, r := range c.rows {
				on, told := b.Blessed[r.Step]
				switch {
				case told && b.Folders[on.Folder-1]+"/job-17" != r.Answer.Generation[:strings.Index(r.Answer.Generation, "/step-")]:
					t.Errorf("step %s is in %s", r.Step, b.Folders[on.Folder-1])
				case told && (oldest.IsZero() || r.At.Before(oldest)):
					oldest = r.At
				case !told && r.At.After(newestLeft):
					newestLeft = r.At
				}
			}
			if !newestLeft.Before(oldest) {
				t.Error("what is left out is not what was heard of longest ago")
			}
		})
	}
	huge := directive.Layer{Source: directive.Source{Kind: directive.Site}, Settings: []directive.Setting{{Key: "setup", Value: strings.Repeat("x", maxBefore)}}}
	if _, err := Tell(directive.Defaults{Layers: []directive.Layer{huge}}, nil); err == nil || !strings.Contains(err.Error(), "burst.toml") {
		t.Errorf("of the site: %v", err)
	}
}
