package nodeapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/ft/session"
)

// spoken is what a burst-agent and a burst-srun of schema 12 (e0e7363) have said, as their own code wrote it, in the
// order in which a node's agent and a step of a job do. There is no version in it but the agent's, for people: what
// is said in an upgrade is understood by its fields.
var spoken = []struct{ path, body, want string }{
	{whoami, `{"instance":"i-1"}`, `"node":"c1"`},
	{report, `{"instance":"i-1","stage":"ready","text":""}`, `{`},
	{beat, `{"instance":"i-1","version":"0.0.0~a","slurmd_started":["2026-11-01T02:03:04Z"],"slurmd":true,"spool_used":3.5}`, `"every":20`},
	{notice, `{"instance":"i-1","kind":"rebalance"}`, `"answers"`},
	{jobword.Path, `{"job":7,"attempt":1}`, `"site":"7 1"`},
	{session.PathOpen, `{"job":7,"attempt":1,"step":"0","token":"t","began":"2026-11-01T02:03:04Z","host":"c1","method":"dmtcp","strategy":"periodic","dir":"/scratch/7",` +
		`"interval":600000000000,"cost":0,"retries":3,"label":"sim","last":{}}`, `"answers"`},
	{session.PathPoll, `{"job":7,"attempt":1,"step":"0","token":"t","wait":0,"progress":{"done":0,"iteration":0}}`, `"answers"`},
	{session.PathAnswer, `{"job":7,"attempt":1,"step":"0","token":"t","answer":{"id":"r1","generation":"/scratch/7/g1","n":1,"bytes":9,"took":1000000000,"iteration":-1}}`, `"answers"`},
	{session.PathClose, `{"job":7,"attempt":1,"step":"0","token":"t","summary":{"label":"sim","method":"dmtcp","exit":0,"ran":3600000000000,"checkpoints":0,"writing":0,` +
		`"restarts":0,"lost":0,"lost_unknown":0,"iteration":-1}}`, `"answers"`},
}

// TestOfAnotherVersion: burstd understands the agents and burst-sruns of the version before, and those of one to come as far as
// it knows what they say; what it does not know at all it refuses in one sentence, and the next request is heard.
func TestOfAnotherVersion(t *testing.T) {
	for _, more := range []string{"", `"of_a_version_to_come":{"a":[1,"x"]},`} {
		w, j := withJobs(t, Limits{})
		for _, s := range spoken {
			body := "{" + more + strings.TrimPrefix(s.body, "{")
			uid := 0
			if strings.HasPrefix(s.path, "/v1/job/") {
				uid = 1000
			}
			got := w.ask(request{"POST", s.path, body, w.munge.mint(uid, payload("POST", s.path, body))})
			if got.status != 200 || !strings.Contains(got.body, s.want) {
				t.Errorf("%s %s: %+v, want %s", s.path, body, got, s.want)
			}
		}
		if len(w.site.beats) != 1 || len(w.site.notices) != 1 || len(w.site.reports) != 1 || w.site.beats[0].Version != "0.0.0~a" || w.site.beats[0].Stopped {
			t.Errorf("of the agent it has %+v, %+v, %+v", w.site.beats, w.site.notices, w.site.reports)
		}
		if j.caller.UID != 1000 {
			t.Errorf("of the burst-srun it has %+v", j.caller)
		}
		for _, path := range []string{"/v1/node/of-a-version-to-come", "/v1/job/of-a-version-to-come", "/v2/node/beat"} {
			got := w.ask(request{"POST", path, `{"instance":"i-1"}`, w.munge.mint(0, payload("POST", path, `{"instance":"i-1"}`))})
			var said struct{ Error string }
			if err := json.Unmarshal([]byte(got.body), &said); err != nil || got.status != 404 || said.Error != "nodes have nothing to ask here" || got.retry != "" {
				t.Errorf("%s: %+v, %v", path, got, err)
			}
		}
	}
}
