package overflow

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestNoLimit: of a job without --time squeue shows the MaxTime of one of its partitions. It has no limit of its own: it goes only where it gets the limit that it gets at home, and by a rule with a time_limit only where it is the one shown.
func TestNoLimit(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name, main, cloud string // MaxTime, and DefaultTime after a "/"
		shown             time.Duration
		rule              time.Duration
		want              string
	}{
		{"MaxTime of its partition", "1-0", "UNLIMITED", day, day, "leave: stays: no rule is about it"},
		{"a limit of its own", "1-0", "UNLIMITED", 2 * time.Hour, day, "add: "},
		{"MaxTime of its partition, any limit", "1-0", "UNLIMITED", day, 0, "leave: stays: cannot run in cloud: the job has no time limit of its own, and would get one of none there, not of 24h"},
		{"it gets the same there", "1-0", "1-0", day, 0, "add: "},
		{"it gets less there", "1-0", "1-0/1:00:00", day, 0, "leave: stays: cannot run in cloud: the job has no time limit of its own, and would get one of 1h there, not of 24h"},
		{"DefaultTime is its own", "1-0/1:00:00", "UNLIMITED", time.Hour, 4 * time.Hour, "add: "},
		{"MaxTime, beside a DefaultTime, is its own", "1-0/1:00:00", "UNLIMITED", day, 0, "add: "},
		{"the same by default, and the rule wants one", "4:00:00", "UNLIMITED/4:00:00", 4 * time.Hour, 4 * time.Hour, "add: "},
		{"MaxTime, beside a DefaultTime", "1-0/1:00:00", "12:00:00/1:00:00", day, 0, "leave: stays: cannot run in cloud: the job's time limit is 24h, and the partition's 12h"},
		{"none at all", "UNLIMITED", "UNLIMITED", 0, 0, "add: "},
		{"none at all, and the rule wants one", "UNLIMITED", "UNLIMITED", 0, day, "leave: stays: no rule is about it"},
		{"its own, and too long there", "2-0", "1-0", day + time.Hour, 0, "leave: stays: cannot run in cloud: the job's time limit is 25h, and the partition's 24h"},
		{"its own, and the cloud's MaxTime", "2-0", "1-0", day, day, "add: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := waits(func(w *slurm.Waiting) { w.TimeLimit = tt.shown })
			s := with([]Rule{small(func(r *Rule) { r.MaxTime = tt.rule })}, w)
			var shown []map[string]string
			for name, limits := range map[string]string{"main": tt.main, "cloud": tt.cloud} {
				most, usual, _ := strings.Cut(limits, "/")
				shown = append(shown, map[string]string{"PartitionName": name, "MaxTime": most, "DefaultTime": usual})
			}
			s.Partitions = PartitionsOf(shown, map[string]slurm.Node{"c1": {Name: "c1", Partitions: []string{"cloud"}, CPUs: 4}}, nil)
			got := Decide(s)[0]
			if text := string(got.Action) + ": " + got.Why; !strings.HasPrefix(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

// TestNoLimitMoved: one whose limit is nobody's shows the cloud's MaxTime at times: it does not go to and fro for that.
func TestNoLimitMoved(t *testing.T) {
	w := waits(func(w *slurm.Waiting) { w.TimeLimit, w.Partition = 0, "main,cloud" })
	s := with([]Rule{small(func(r *Rule) { r.MaxTime = 4 * time.Hour })}, w)
	s.Partitions = PartitionsOf([]map[string]string{{"PartitionName": "main", "MaxTime": "1-0"}, {"PartitionName": "cloud", "MaxTime": "UNLIMITED"}},
		map[string]slurm.Node{"c1": {Name: "c1", Partitions: []string{"cloud"}, CPUs: 4}}, nil)
	s.Records = []Record{record(w, InPlace)}
	for _, shown := range []time.Duration{0, 24 * time.Hour, time.Hour} {
		s.Waiting[0].TimeLimit = shown
		if got := Decide(s)[0]; got.Action != Keep {
			t.Errorf("%s: %s", shown, got.Why)
		}
	}
	s.Waiting[0].TimeLimit = 5 * time.Hour // it was given a limit
	if got := Decide(s)[0]; got.Action != Take {
		t.Errorf("%s", got.Why)
	}
}

// TestHome: a job that does not say how much memory it needs, or asks for whole nodes, gets nodes like its own.
func TestHome(t *testing.T) {
	for _, tt := range []struct {
		name         string
		cpus, memory int // of the site's least node
		job          func(*slurm.Waiting)
		want         string
	}{
		{"no memory", 8, 16000, nil, "leave: stays: cannot run in cloud: it does not say what memory it needs (--mem), and may use the 16000 MiB"},
		{"no memory, and nodes like its own", 8, 8800, nil, "add: "},
		{"memory", 8, 16000, func(w *slurm.Waiting) { w.Memory, w.Total = 1000, 1000 }, "add: "},
		{"whole nodes", 8, 8000, func(w *slurm.Waiting) { w.Whole = true }, "leave: stays: cannot run in cloud: it asks for whole nodes, and its own have 8 CPUs at least"},
		{"a word that is not known", 8, 8000, func(w *slurm.Waiting) { w.Whole, w.Unread = true, "Exclusive=RACK" }, "leave: stays: cannot run in cloud: Slurm says Exclusive=RACK of it, which may be whole nodes, and its own have 8 CPUs at least"},
		{"whole nodes like its own", 4, 8000, func(w *slurm.Waiting) { w.Whole = true }, "add: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := waits(tt.job)
			s := with([]Rule{small(nil)}, w)
			s.Partitions = PartitionsOf([]map[string]string{{"PartitionName": "main"}, {"PartitionName": "cloud"}}, map[string]slurm.Node{
				"n1": {Name: "n1", Partitions: []string{"main"}, CPUs: tt.cpus, RealMemory: tt.memory},
				"n2": {Name: "n2", Partitions: []string{"main"}, CPUs: 2 * tt.cpus, RealMemory: 2 * tt.memory},
				"c1": {Name: "c1", Partitions: []string{"cloud"}, CPUs: 4, RealMemory: 8000}}, nil)
			if got := Decide(s)[0]; !strings.HasPrefix(string(got.Action)+": "+got.Why, tt.want) {
				t.Errorf("got %s: %s, want %q", got.Action, got.Why, tt.want)
			}
		})
	}
}

// TestTopology: a job does not go where Slurm's topology has too few nodes for it: Slurm would take it, and never start it there.
func TestTopology(t *testing.T) {
	for _, tt := range []struct {
		name      string
		connected map[string]bool
		nodes     int
		want      string
	}{
		{"no topology", nil, 2, "add: "},
		{"all are in a switch", map[string]bool{"n1": true, "c1": true, "c2": true}, 2, "add: "},
		{"enough are", map[string]bool{"c2": true}, 1, "add: "},
		{"too few are", map[string]bool{"c2": true}, 2, "leave: stays: cannot run in cloud: it asks for 2 nodes, and Slurm's topology has 1 of the 2 in a switch or block"},
		{"none is", map[string]bool{"n1": true}, 1, "leave: stays: cannot run in cloud: it asks for 1 nodes, and Slurm's topology has 0 of the 2"},
		{"there are too few", map[string]bool{"c1": true, "c2": true}, 3, "leave: stays: cannot run in cloud: it asks for 3 nodes, and there are 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := waits(func(w *slurm.Waiting) { w.NumNodes = tt.nodes })
			s := with([]Rule{small(func(r *Rule) { r.MaxNodes = 0 })}, w)
			s.Partitions = PartitionsOf([]map[string]string{{"PartitionName": "main"}, {"PartitionName": "cloud"}}, map[string]slurm.Node{
				"c1": {Name: "c1", Partitions: []string{"cloud"}, CPUs: 4, RealMemory: 8000},
				"c2": {Name: "c2", Partitions: []string{"cloud"}, CPUs: 4, RealMemory: 8000}}, tt.connected)
			if got := Decide(s)[0]; !strings.HasPrefix(string(got.Action)+": "+got.Why, tt.want) {
				t.Errorf("got %s: %s, want %q", got.Action, got.Why, tt.want)
			}
		})
	}
}

// TestDear: while the budget has no room for one job, those that ask for as much of it or more do not give up their places.
func TestDear(t *testing.T) {
	first := waits(func(w *slurm.Waiting) { w.ID, w.NumNodes = 5, 2 })
	for _, tt := range []struct {
		name    string
		cluster bool
		job     func(*slurm.Waiting)
		want    Action
	}{
		{"as much", false, func(w *slurm.Waiting) { w.NumNodes = 2 }, Leave},
		{"for longer", false, func(w *slurm.Waiting) { w.NumNodes, w.TimeLimit = 2, 23*time.Hour }, Leave},
		{"fewer nodes", false, nil, Add},
		{"for less time", false, func(w *slurm.Waiting) { w.NumNodes, w.TimeLimit = 2, time.Minute }, Add},
		{"another user's", false, func(w *slurm.Waiting) { w.NumNodes, w.User = 2, "bob" }, Add},
		{"of another account", false, func(w *slurm.Waiting) { w.NumNodes, w.Account = 2, "chem" }, Add},
		{"another user's, and the cluster's budget", true, func(w *slurm.Waiting) { w.NumNodes, w.User = 2, "bob" }, Leave},
	} {
		w := waits(tt.job)
		s := with([]Rule{small(nil)}, w)
		s.Back = map[uint32]Back{5: {Until: now.Add(10 * time.Minute), Why: "budget: no more", Of: &first, Cluster: tt.cluster}}
		got := Decide(s)[0]
		if got.Action != tt.want || got.Action == Leave && !strings.Contains(got.Why, "job 5, which asks for no more, was given back: budget: no more") {
			t.Errorf("%s: %s: %s", tt.name, got.Action, got.Why)
		}
		never := s.Back[5]
		never.Never = true
		s.Back[5] = never
		if got := Decide(s)[0]; got.Action != Add {
			t.Errorf("%s, behind one that never fits: %s: %s", tt.name, got.Action, got.Why)
		}
	}
}

// TestDearLeast: of several that were given back each payer's least count, of which none asks for less of both than another.
func TestDearLeast(t *testing.T) {
	back := func(id uint32, nodes int, limit time.Duration) Back {
		w := waits(func(w *slurm.Waiting) { w.ID, w.NumNodes, w.TimeLimit = id, nodes, limit })
		return Back{Until: now.Add(10 * time.Minute), Why: "budget: no more", Of: &w}
	}
	for _, tt := range []struct {
		nodes int
		limit time.Duration
		want  string
	}{
		{2, 10 * time.Hour, "job 5,"}, {4, 10 * time.Hour, "job 5,"}, {4, time.Hour, "job 7,"}, {4, 30 * time.Minute, ""}, {1, 20 * time.Hour, ""}, {4, 0, "job 5,"},
	} {
		w := waits(func(w *slurm.Waiting) { w.ID, w.NumNodes, w.TimeLimit = 20, tt.nodes, tt.limit })
		s := with([]Rule{small(nil)}, w)
		s.Partitions["cloud"] = Partition{Name: "cloud", Up: true, kinds: []kind{{count: 9, cpus: 9}}}
		s.Back = map[uint32]Back{4: back(4, 4, 20*time.Hour), 5: back(5, 2, 10*time.Hour), 6: back(6, 3, 10*time.Hour), 7: back(7, 4, time.Hour), 8: back(8, 2, 0)}
		if got := Decide(s)[0]; (got.Action == Add) != (tt.want == "") || !strings.Contains(got.Why, tt.want) {
			t.Errorf("%d nodes for %s: %s: %s", tt.nodes, tt.limit, got.Action, got.Why)
		}
	}
}
