package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestStatusFitsOneScreen, whatever a site has, and says first what is wrong.
func TestStatusFitsOneScreen(t *testing.T) {
	now := time.Now()
	usd := 1234.5
	long := strings.Repeat("a very long word of a cloud ", 30) + "\x1b[31m\nnext"
	crowd := func(pools, wrong, notices, waits int) api.Status {
		s := api.Status{Cluster: "f00d", Version: "v1.2.3", Started: now, SlurmOK: true, Nodes: map[string]int{"up": 1990, "booting": 10, "wanted": 3, "launching": 1, "freeing": 7},
			Instances: 2000, Evictions: notices, Wait: waits, USDPerHour: &usd, Unpriced: 12, Providers: map[string]string{"ok": "ok"}, Stopped: map[string]string{}}
		for i := range pools {
			s.Pools = append(s.Pools, api.PoolLoad{Pool: fmt.Sprintf("pool-with-a-long-name-%d", i), Instances: i, Ending: 1, USDPerHour: float64(i), Nodes: s.Nodes})
		}
		for i := range wrong {
			s.Stopped[fmt.Sprint("s", i)] = long
			s.Providers[fmt.Sprint("p", i)] = long
		}
		for i := range notices {
			s.Evicting = append(s.Evicting, api.Evicting{Node: fmt.Sprint("c", i), Kind: "spot-interruption", Stage: "draining", Deadline: now.Add(time.Duration(i-1) * time.Minute),
				Jobs: []api.EvictingJob{{Job: 4_000_000_000, Stage: "signalled"}, {Job: 4_000_000_001, Stage: "planned"}}})
		}
		s.Running = waits / 2
		for i := range waits {
			s.Steps = append(s.Steps, api.Step{Job: uint32(i + 1), Step: long, Method: "dmtcp"})
			s.Waiting = append(s.Waiting, api.Waiting{Job: uint32(i + 1), Until: now.Add(time.Minute), Why: long})
		}
		return s
	}
	tall := crowd(50, 2, 3, 3)
	tall.Paused = &api.Paused{Since: now, By: "root", Why: strings.Repeat("预算用完了", 40)}
	tall.SlurmError, tall.Spooled = strings.Repeat("e\u0301", 200), 7
	for i := range tall.Pools {
		tall.Pools[i].Pool = strings.Repeat("ü", 70) + tall.Pools[i].Pool
	}
	tall.Evicting[0].Node = strings.Repeat("n", 200)
	for _, tt := range []struct {
		name   string
		s      api.Status
		lines  int // at least
		want   []string
		absent []string
	}{
		{name: "nothing", s: api.Status{}, want: []string{"WRONG", "slurm has not answered yet", "none powered up"}},
		{name: "a quiet site", s: crowd(1, 0, 0, 0), want: []string{"1234.50 USD per hour and 12 without a known price", "slurm ok, 1 provider ok"}, absent: []string{"WRONG", "waiting", "burst-srun"}},
		{name: "a server that nobody uses", s: api.Status{Pools: []api.PoolLoad{{Pool: "lon-nfs", Instances: 1, USDPerHour: 0.03, Nodes: map[string]int{"up": 1}, Unused: true}}},
			want: []string{"  lon-nfs         1 instances      0.03 USD/h  1 up, unused: 0.72 USD/day"}},
		{name: "a server that Slurm does not know", s: api.Status{Servers: map[string]string{"nfs1": "Slurm does not know it: slurm.conf lacks what burst genconf prints of it"}},
			want: []string{"WRONG", "  server nfs1: Slurm does not know it"}},
		{name: "a provider that has left burst.toml", s: api.Status{Left: map[string]string{"lon": power.Left{Instances: 3, Launches: 1}.Say("lon")}},
			want: []string{"WRONG", "  provider lon is not in burst.toml: 3 instances, 1 launches neither watched no"}},
		{name: "many pools", s: crowd(100, 0, 0, 0), lines: screenLines, want: []string{"pool-with-a-long-name-99", "more: burst status --json"}},
		{name: "all at once", s: crowd(100, 10, 100, 100), lines: screenLines, want: []string{"WRONG", "provider p0 fails", "over for 1m0s", "job 4000000000 signalled", "100 for nodes", "pool-with-a-long-name-99", "50 under burst-srun", "no checkpoint yet"}},
		{name: "long names and many alphabets", s: tall, lines: screenLines, want: []string{"预算", "49 instances     49.00 USD/h", "over for 1m0s"}},
		{name: "much wrong, little else", s: crowd(1, 6, 1, 1), want: []string{"pool s5 is stopped", "provider p5 fails"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := statusScreen(tt.s, now)
			text := strings.Join(lines, "\n")
			if len(lines) > screenLines || len(lines) < tt.lines {
				t.Errorf("%d lines, want %d to %d:\n%s", len(lines), tt.lines, screenLines, text)
			}
			for _, l := range lines {
				n := utf8.RuneCountInString(l) - strings.Count(l, "\u0301")
				for _, wide := range "预算用完了" {
					n += strings.Count(l, string(wide))
				}
				if n > screenWidth || strings.ContainsAny(l, "\n\x1b") {
					t.Errorf("%d columns: %q", n, l)
				}
			}
			for _, w := range tt.want {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in\n%s", w, text)
				}
			}
			for _, w := range tt.absent {
				if strings.Contains(text, w) {
					t.Errorf("%q in\n%s", w, text)
				}
			}
			if i := strings.Index(text, "WRONG"); i > screenWidth+1 {
				t.Errorf("what is wrong does not come first:\n%s", text)
			}
		})
	}
}
