package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// desk is a Slurm with jobs that wait. At one of its updates burstd dies.
type desk struct {
	rows    []map[string]string // by squeue's names
	updates []string
	dieAt   int    // the update, from 1; 0: none
	after   bool   // it is carried out, but the answer is lost
	refuse  string // what scontrol update says
	only    string // to an update of this, as "jobid=5 "; empty: to each
	broken  string // what scontrol says of the script of job 5
	reads   int    // of scripts
	looks   int    // at those that wait
	nodes   string // what scontrol says of nodes; empty: of one
	dead    bool

	partitions, config string // what scontrol says of them; empty: of two, and nothing
	topology           string // what scontrol says of it
}

var errDead = errors.New("burstd is dead")

type refused struct{}

func (refused) Error() string { return "exit status 1" }
func (refused) ExitCode() int { return 1 }

func (d *desk) Run(_ context.Context, name string, args ...string) ([]byte, []byte, error) {
	line := strings.Join(args, " ")
	switch {
	case d.dead:
		return nil, nil, errDead
	case name == "squeue":
		if slices.Contains(args, "PENDING") {
			d.looks++
		}
		return d.squeue(args), nil, nil
	case strings.Contains(line, "show nodes") && d.nodes != "":
		return []byte(d.nodes), nil, nil
	case strings.Contains(line, "show nodes"):
		return []byte("NodeName=c1 CPUTot=4 RealMemory=4000 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud\n"), nil, nil
	case strings.Contains(line, "show partitions"):
		if d.partitions != "" {
			return []byte(d.partitions), nil, nil
		}
		return []byte("PartitionName=main Default=YES State=UP\nPartitionName=cloud State=UP MaxTime=UNLIMITED\n"), nil, nil
	case strings.Contains(line, "show config"):
		return []byte("Configuration data as of 2026-01-01T00:00:00\n" + d.config), nil, nil
	case strings.HasSuffix(line, "show topology"):
		return []byte(d.topology), nil, nil
	case strings.HasPrefix(line, "write batch_script"):
		d.reads++
		if d.broken != "" && args[2] == "5" {
			return nil, []byte(d.broken), refused{}
		}
		return []byte("#!/bin/sh\ntrue\n"), nil, nil
	case strings.HasPrefix(line, "update jobid="):
		d.updates = append(d.updates, line)
		if d.dead = len(d.updates) == d.dieAt; d.dead && !d.after {
			return nil, nil, errDead
		}
		if d.refuse != "" && strings.HasPrefix(line, "update "+d.only) {
			return nil, []byte(d.refuse), refused{}
		}
		job, partitions, _ := strings.Cut(strings.TrimPrefix(line, "update jobid="), " partition=")
		job, said, says := strings.Cut(job, " admincomment=")
		if _, more, also := strings.Cut(partitions, " admincomment="); also {
			said, says = more, true
		}
		partitions, _, _ = strings.Cut(partitions, " ")
		if partitions != "" {
			d.update(job, partitions)
		}
		d.say(job, said, says)
		if d.dead {
			return nil, nil, errDead
		}
		return nil, nil, nil
	}
	return nil, nil, fmt.Errorf("what is %s %s?", name, line)
}

func (d *desk) squeue(args []string) []byte {
	var b strings.Builder
	only := ""
	for i, a := range args {
		if a == "-j" {
			only = args[i+1]
		}
	}
	for _, row := range d.rows {
		if slices.Contains(args, "PENDING") && row["State"] != "PENDING" {
			continue
		}
		if only != "" && row["JobID"] != only && row["ArrayJobID"] != only {
			continue
		}
		for item := range strings.SplitSeq(args[slices.Index(args, "-O")+1], ",") {
			field, mark, _ := strings.Cut(item, ":")
			b.WriteString(row[field] + mark)
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}

// say writes the comment of a job, or of all tasks of a row.
func (d *desk) say(job, text string, says bool) {
	for _, row := range d.rows {
		if says && (row["JobID"] == job || row["ArrayJobID"]+"_["+row["ArrayTaskID"]+"]" == job) {
			row["admin_comment"] = text
		}
	}
}

// update splits the tasks that are named off their array, but not all of them.
func (d *desk) update(job, partitions string) {
	array, list, isArray := strings.Cut(job, "_")
	for i, row := range d.rows {
		if !isArray {
			if row["JobID"] == job {
				row["Partition"] = partitions
			}
			continue
		}
		tasks, named := slurm.Job{ArrayTask: row["ArrayTaskID"]}.ArrayTasks(), slurm.Job{ArrayTask: strings.Trim(list, "[]")}.ArrayTasks()
		if row["ArrayJobID"] == array && !slices.ContainsFunc(tasks, func(t int) bool { return !slices.Contains(named, t) }) {
			row["Partition"] = partitions
			continue
		}
		for _, t := range named {
			if row["ArrayJobID"] != array || !slices.Contains(tasks, t) {
				continue
			}
			if len(tasks) == 1 {
				row["Partition"] = partitions
				continue
			}
			own := map[string]string{}
			for k, v := range row {
				own[k] = v
			}
			own["JobID"], own["ArrayTaskID"], own["Partition"] = fmt.Sprint(array, t), fmt.Sprint(t), partitions
			d.rows = append(d.rows, own)
			tasks = slices.DeleteFunc(tasks, func(o int) bool { return o == t })
			d.rows[i]["ArrayTaskID"] = strings.Trim(strings.Join(strings.Fields(fmt.Sprint(tasks)), ","), "[]")
		}
	}
}

// state has each job's partitions.
func (d *desk) state() map[string]string {
	all := map[string]string{}
	for _, row := range d.rows {
		all[row["ArrayJobID"]+"/"+row["ArrayTaskID"]] = row["Partition"]
	}
	return all
}

func waiting(id, task, partition string) map[string]string {
	old := fmt.Sprint(time.Now().Add(-time.Hour).Unix())
	return map[string]string{"JobID": id, "ArrayJobID": id, "ArrayTaskID": task, "UserID": "1000", "UserName": "ada", "Partition": partition, "State": "PENDING", "Reason": "Resources",
		"Requeue": "1", "BatchFlag": "1", "NumNodes": "1", "NumCPUs": "1", "MinCPUs": "1", "NumTasks": "1", "OverSubscribe": "OK", "PriorityLong": "10", "TimeLimit": "10:00", "SubmitTime": old, "EligibleTime": old, "WorkDir": "/home/ada"}
}

// shop is a burstd at a desk, which may start again.
type shop struct {
	*testing.T
	*desk
	path  string
	rules config.Overflow
	over  overflowing

	started func() // unless nil it is called for each burstd
}

func newShop(t *testing.T, rows ...map[string]string) *shop {
	s := &shop{T: t, desk: &desk{rows: rows}, path: newJournal(t),
		rules: config.Overflow{Rules: []overflow.Rule{{Name: "small", From: []string{"main"}, To: []string{"cloud"}, After: time.Minute}}}}
	s.start()
	return s
}

// start has a new burstd on the same journal.
func (s *shop) start() {
	s.Helper()
	st, err := store.Open(s.Context(), s.path)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { st.Close() })
	s.dead = false
	client := slurm.New(s.desk)
	s.over = overflowing{Daemon: &Daemon{cfg: &config.Config{Overflow: s.rules}, store: st, journal: st, client: client,
		watcher: slurm.NewWatcher(client.Snapshot, time.Millisecond), log: slog.New(slog.DiscardHandler)}}
	if s.started != nil {
		s.started()
	}
}

// rounds goes on until nothing changes; a burstd that dies is started again.
func (s *shop) rounds() {
	s.Helper()
	for range 3 {
		err := s.over.round(s.Context())
		switch {
		case s.dead:
			if err := s.over.store.Close(); err != nil {
				s.Fatal(err)
			}
			s.start()
		case err != nil:
			s.Fatal(err)
		}
	}
}

func (s *shop) log() []store.Overflowed {
	s.Helper()
	all, err := s.over.store.Overflows(s.Context(), -1, 100)
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// TestOverflowDies: wherever burstd dies, each job is moved, and taken back, as if it had not; one
// that its user gave both partitions is never touched.
func TestOverflowDies(t *testing.T) {
	jobs := func() []map[string]string {
		return []map[string]string{waiting("5", "N/A", "main"), waiting("6", "N/A", "main,cloud"), waiting("7", "N/A", "other"), waiting("30", "1-3", "main")}
	}
	moved := map[string]string{"5/N/A": "main,cloud", "6/N/A": "main,cloud", "7/N/A": "other", "30/1-3": "main,cloud"}
	back := map[string]string{"5/N/A": "main", "6/N/A": "main,cloud", "7/N/A": "other", "30/1-3": "main"}
	for n := range 5 { // there are four updates: one job and one array, and back
		for _, after := range []bool{false, true} {
			s := newShop(t, jobs()...)
			s.dieAt, s.after = n, after
			s.rounds()
			if got := s.state(); !reflect.DeepEqual(got, moved) {
				t.Fatalf("death at %d, after %v: %v, want %v", n, after, got, moved)
			}
			if log := s.log(); len(log) != 4 || slices.ContainsFunc(log, func(o store.Overflowed) bool { return o.State != overflow.InPlace || !o.Ended.IsZero() || o.Job == 6 }) {
				t.Fatalf("death at %d, after %v: %+v", n, after, log)
			}
			s.rules.Rules = nil
			s.start()
			s.rounds()
			if got := s.state(); !reflect.DeepEqual(got, back) {
				t.Fatalf("death at %d, after %v, and no rules: %v, want %v", n, after, got, back)
			}
			if log := s.log(); len(log) != 4 || slices.ContainsFunc(log, func(o store.Overflowed) bool { return o.Ended.IsZero() }) {
				t.Fatalf("death at %d, after %v, and no rules: %+v", n, after, log)
			}
			if i := slices.IndexFunc(s.updates, func(u string) bool { return strings.Contains(u, "jobid=6") }); i >= 0 {
				t.Errorf("%s", s.updates[i])
			}
		}
	}
}

// TestOverflowOutOfSwitches: a job does not go to nodes that are in no switch, where Slurm would never start it, and comes back from there.
func TestOverflowOutOfSwitches(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"))
	s.topology = "SwitchName=leaf Level=0 LinkSpeed=1 Nodes=n[1-4]\n"
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main,cloud" {
		t.Fatalf("without a topology it is in %s", got)
	}
	for _, tt := range []struct{ topology, want string }{{"Nodes=n[1-4]", "main"}, {"Nodes=n[1-4],c1", "main,cloud"}} {
		s.config, s.topology = "TopologyPlugin = topology/tree\n", "SwitchName=leaf Level=0 LinkSpeed=1 "+tt.topology+"\n"
		s.over.overflows.shown = time.Time{} // a minute later
		s.rounds()
		if got := s.state()["5/N/A"]; got != tt.want {
			t.Errorf("with %s it is in %s, not %s", tt.topology, got, tt.want)
		}
	}
}

// TestOverflowIsTold: the events say what was done, and the scripts were read once.
func TestOverflowIsTold(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"), waiting("30", "1-2", "main"))
	s.rounds()
	s.rows[0]["Partition"] = "main" // its user took it away
	s.rules.Rules = nil
	s.over.cfg.Overflow.Rules = []overflow.Rule{{Name: "small", From: []string{"main"}, To: []string{"cloud"}, After: time.Minute, AtOnce: 1}}
	s.rounds()
	events, err := s.over.store.Events(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, e.Kind+" "+e.Text)
	}
	want := []string{"overflow job 5: rule small: waits 1h for Resources; goes also to cloud", "overflow job 30_[1,2]: rule small: waits 1h for Resources; goes also to cloud",
		"overflow-left job 5: its user or an admin made its partitions main: Burst leaves it alone",
		"overflow-back job 30_2: rule small lets 1 of its jobs at once wait or run in cloud; back to main"}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.reads != 2 {
		t.Errorf("%d scripts were read", s.reads)
	}
}

// TestOverflowWithoutJournal: what cannot be written is not done, and is made good.
func TestOverflowWithoutJournal(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"), waiting("8", "N/A", "main"))
	if err := s.over.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.rows = append(s.rows, waiting("9", "N/A", "main"), waiting("10", "N/A", "main"))
	if err := s.over.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.over.round(t.Context()); err == nil || len(s.updates) != 2 {
		t.Error(err, s.updates)
	}
	s.start()
	s.rounds()
	if len(s.updates) != 4 || len(s.log()) != 4 {
		t.Error(s.updates, s.log())
	}
}

// TestNoOverflow: without rules Slurm is asked once, whether jobs are told of such as are gone.
func TestNoOverflow(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"))
	s.rules.Rules = nil
	s.start()
	if err := s.over.keepOverflow(t.Context()); err != nil || s.looks != 1 || len(s.updates) > 0 {
		t.Error(err, s.looks, s.updates)
	}
}

// TestOverflowPlan: a plan changes nothing, and may be by other rules.
func TestOverflowPlan(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"), waiting("30", "1-2", "main"))
	for uid, want := range map[int]int{-1: 2, 1000: 2, 1001: 0} {
		got, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: uid})
		if err != nil || len(got) != want {
			t.Error(uid, got, err)
		}
		if want > 0 && (got[0].Job != "5" || got[0].Action != "add" || got[0].To != "cloud" || got[1].Job != "30_[1,2]" || got[0].Waited < 3600) {
			t.Errorf("%+v", got)
		}
	}
	got, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1, Rules: []byte(`{"Rules":[{"Name":"other","From":["main"],"To":["cloud"],"After":7200000000000}]}`)})
	if err != nil || len(got) != 2 || got[0].Action != "leave" || got[0].Rule != "other" {
		t.Error(got, err)
	}
	if _, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1, Rules: []byte(`[]`)}); err == nil {
		t.Error("no rules are taken")
	}
	if len(s.updates) > 0 || len(s.log()) > 0 {
		t.Error(s.updates, s.log())
	}
}

// TestOverflowPaused: while launches are paused nobody goes to the cloud, and what was moved comes back.
func TestOverflowPaused(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"))
	pool := config.Pool{Power: power.Pool{Name: "p", Provider: "here", Nodes: []string{"c1"}}, Slurm: conf.Pool{Partition: "cloud"}}
	s.over.cfg.Pools = []config.Pool{pool}
	engine := func(st power.State) *power.Engine {
		return engineOf(t, power.Config{Pools: []power.Pool{pool.Power}}, st)
	}
	s.over.engine = engine(power.State{})
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main,cloud" {
		t.Fatal(got)
	}
	s.over.engine = engine(power.State{Pause: power.Pause{Since: time.Now(), By: "uid 0", Why: "month's end"}})
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main" {
		t.Error(got)
	}
	if got := s.log()[0].EndedWhy; !strings.Contains(got, "no nodes are launched for cloud now: ") || !strings.Contains(got, "month's end") {
		t.Error(got)
	}
	stopped := power.Breaker{Pool: "p", Stopped: time.Now(), Why: "by hand"}
	s.over.engine = engine(power.State{Breakers: []power.Breaker{stopped}})
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main" {
		t.Error(got)
	}
	s.over.engine = engine(power.State{})
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main,cloud" || len(s.log()) != 2 {
		t.Error(got, s.log())
	}
}
