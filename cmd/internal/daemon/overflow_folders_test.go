package daemon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestJobsStayWhereTheirFoldersAre: a job whose folder no node of the cloud is known to have is not moved, and it is said to its user, to
// who explains it, and to an admin, who sees what the key in the file would change.
func TestJobsStayWhereTheirFoldersAre(t *testing.T) {
	row := waiting("5", "N/A", "main")
	row["WorkDir"], row["STDOUT"] = "/home/ann", "/home/ann/slurm-5.out"
	s := explaining(t, power.State{}, row)
	s.over.cfg.Overflow.Shared = map[string][]overflow.Shared{"cloud": {{Pool: "p", Folders: []string{"/opt"}}}}
	const why = "nodes of pool p do not have /home/ann, its working directory, as far as burst.toml says (mounts, file_systems)"
	s.rounds()
	if got := s.rows[0]["admin_comment"]; !strings.HasPrefix(got, power.KeptText+why+", since ") || s.rows[0]["Partition"] != "main" {
		t.Errorf("it was told %q, and has %s", got, s.rows[0]["Partition"])
	}
	if e := s.explain(api.ExplainAsk{Job: "5", UID: 1000, By: 1000}); !strings.HasSuffix(e.Line, "; of the cloud: stays: "+why) {
		t.Errorf("%q", e.Line)
	}
	would := api.Would{Partition: "main", Limit: time.Hour, WorkDir: "/home/ann"}
	if e := s.explain(api.ExplainAsk{Would: &would, UID: 1000, By: 1000}); e.Line != "would stay at the site: "+why {
		t.Errorf("%q", e.Line)
	}
	would.Partition = "cloud"
	if e := s.explain(api.ExplainAsk{Would: &would, UID: 1000, By: 1000}); !strings.HasPrefix(e.Line, "would start in the cloud") ||
		!slices.Contains(e.Details, why+overflow.AtOnce) {
		t.Errorf("%q, %q", e.Line, e.Details)
	}
	plan := func(rules *config.Overflow) string {
		ask := api.OverflowAsk{UID: -1}
		if rules != nil {
			text, err := json.Marshal(rules)
			if err != nil {
				t.Fatal(err)
			}
			ask.Rules = text
		}
		all, err := s.over.OverflowPlan(t.Context(), ask)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Action + " " + all[0].Why
	}
	if got := plan(nil); got != "leave stays: "+why {
		t.Errorf("%q", got)
	}
	file := s.over.cfg.Overflow
	file.Shared = map[string][]overflow.Shared{"cloud": {{Pool: "p", Folders: []string{"/home"}}}}
	if got := plan(&file); !strings.HasPrefix(got, "add ") {
		t.Errorf("%q", got)
	}
	s.over.cfg.Overflow.Shared = file.Shared
	s.rounds()
	if got := s.rows[0]["Partition"]; got != "main,cloud" {
		t.Errorf("its partitions are %s, and it was told %q", got, s.rows[0]["admin_comment"])
	}
}
