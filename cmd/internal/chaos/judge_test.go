package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm"
)

// What burstd may have grown by once the world is calm again: Go keeps freed
// memory for a while, SQLite its cache.
const (
	moreMemory     = 32 << 20
	moreGoroutines = 10
)

// judge holds the world to the promises, once it is calm.
func (w *world) judge(base size) {
	ctx := w.t.Context()
	jobs, err := w.Slurm().Jobs(ctx)
	if err != nil {
		w.t.Errorf("reading the jobs: %v", err)
	}
	w.jobsEnded(jobs)
	w.attemptsApart()
	w.launchedOnce()
	w.sameSize(ctx, base)
	if out := w.command("scontrol", "-o", "show", "reservation"); bytes.Contains(out, []byte("ReservationName=")) {
		w.t.Errorf("reservations are left: %s", out)
	}
	if err := w.StopBurstd(); err != nil {
		w.t.Error(err)
	}
	w.journalClosed(ctx)
}

// jobsEnded: every job has finished, or its user was told why not.
func (w *world) jobsEnded(jobs []slurm.Job) {
	for _, s := range w.jobs {
		n := 0
		for _, j := range jobs {
			if j.ID != s.id && j.ArrayID != s.id {
				continue
			}
			n++
			switch {
			case j.State == "COMPLETED", j.State == "CANCELLED" && s.cancelled:
			case j.State == "NODE_FAIL" && s.NoRequeue: // Slurm's word for it
			case j.State == "FAILED" && s.NoRequeue && (j.AdminComment != "" || w.unresolved(j.ID)):
			default:
				w.t.Errorf("job %d %+v: %s, reason %s, exit code %d, %d restarts, admin comment %q", j.ID, s.job, j.State, j.Reason, j.ExitCode, j.Restarts, j.AdminComment)
			}
		}
		// What is cancelled of an array before it begins stays one line.
		if want := max(1, s.Tasks); n > want || n < want && !(s.cancelled && n > 0) {
			w.t.Errorf("job %d: Slurm knows %d of its %d tasks", s.id, n, want)
		}
	}
}

// unresolved says that the job was not told its nodes' addresses (see lostAliases).
func (w *world) unresolved(id uint32) bool {
	_, err := os.Stat(filepath.Join(w.Work, fmt.Sprintf("unresolved.%d.log", id)))
	return err == nil
}

// attemptsApart: no attempt of a job lived when the next began.
func (w *world) attemptsApart() {
	all, err := attempts(filepath.Join(w.Work, "beat"))
	if err != nil {
		w.t.Error(err)
	}
	for id, list := range all {
		for i, a := range list {
			for _, b := range list[i+1:] {
				if a.last < b.begin {
					continue
				}
				text := fmt.Sprintf("job %d: an attempt that began at %s lived until %s, and another began at %s: %v %v", id, clock(a.begin), clock(a.last), clock(b.begin), a.where, b.where)
				if w.forgotten(a.begin) {
					// It was told to run, and Slurm has no record of that.
					fmt.Println("chaos: slurmctld was killed before it had written the start down.", text)
					continue
				}
				w.t.Error(text)
			}
		}
	}
}

// forgotten says that slurmctld may have died before it had written to disk
// what happened at that time.
func (w *world) forgotten(at float64) bool {
	return slices.ContainsFunc(w.deaths, func(d time.Time) bool {
		before := float64(d.UnixNano())/1e9 - at
		return before > -1 && before < 10
	})
}

func clock(t float64) string { return time.UnixMicro(int64(t * 1e6)).Format("15:04:05.000000") }

// launchedOnce: a token has as many instances as were asked for under it, and
// a node one at a time.
func (w *world) launchedOnce() {
	machines, err := w.Control.List()
	if err != nil {
		w.t.Error(err)
	}
	byToken := map[string]int{}
	for i, a := range machines {
		byToken[a.Token]++
		for _, b := range machines[i+1:] {
			if a.Node != "" && a.Node == b.Node && b.Launched.Before(a.Ended) {
				w.t.Errorf("node %s had two instances: %s (token %s) until %s, %s (token %s) from %s on", a.Node, a.ID, a.Token, a.Ended, b.ID, b.Token, b.Launched)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(w.Control.Dir, "launches", "*.json"))
	if err != nil || len(files) == 0 && len(machines) > 0 {
		w.t.Errorf("no launches: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		var launch struct{ Request cloud.LaunchRequest }
		if err == nil {
			err = json.Unmarshal(text, &launch)
		}
		if err != nil {
			w.t.Error(err)
		}
		if r := launch.Request; byToken[r.Token] > r.Count {
			w.t.Errorf("token %s: %d instances, %d were asked for", r.Token, byToken[r.Token], r.Count)
		}
	}
}

// journalClosed reads the journal that burstd has left.
func (w *world) journalClosed(ctx context.Context) {
	st, err := store.Open(ctx, filepath.Join(w.Dir, "state", "burst.db"))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer st.Close()
	p, err := st.LoadPower(ctx)
	if err != nil {
		w.t.Error(err)
	}
	f, err := st.LoadFT(ctx)
	if err != nil {
		w.t.Error(err)
	}
	for _, part := range []struct {
		name string
		n    int
		what any
	}{
		{"orders", len(p.Orders), p.Orders}, {"nodes", len(p.Nodes), p.Nodes}, {"launches", len(p.Launches), p.Launches},
		{"instances", len(p.Instances), p.Instances}, {"boots", len(p.Boots), p.Boots},
		{"fences", len(p.Fences), p.Fences},
		{"notices", len(f.Notices), f.Notices}, {"evictions", len(f.Evictions), f.Evictions},
	} {
		if part.n > 0 {
			w.t.Errorf("the journal has open %s: %+v", part.name, part.what)
		}
	}
}

// size is what burstd takes.
type size struct {
	goroutines int
	memory     int // resident bytes
}

func (w *world) size(ctx context.Context) (s size, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.metrics+"/metrics", nil)
	if err != nil {
		return s, err
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		name, value, _ := strings.Cut(sc.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment
		}
		switch name {
		case "go_goroutines":
			s.goroutines = int(n)
		case "process_resident_memory_bytes":
			s.memory = int(n)
		}
	}
	if s.goroutines == 0 || s.memory == 0 {
		return s, fmt.Errorf("burstd's metrics lack its size: %+v", s)
	}
	return s, nil
}

// startSize is burstd's once it has come to rest after its start.
func (w *world) startSize(ctx context.Context) (size, error) {
	least, err := w.size(ctx)
	for range 5 {
		time.Sleep(500 * time.Millisecond)
		s, e := w.size(ctx)
		if e != nil {
			return least, e
		}
		least.goroutines, least.memory = min(least.goroutines, s.goroutines), max(least.memory, s.memory)
	}
	return least, err
}

// sameSize: burstd is as it was at the start.
func (w *world) sameSize(ctx context.Context, base size) {
	var s size
	var err error
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Second) {
		if s, err = w.size(ctx); err == nil && s.goroutines <= base.goroutines+moreGoroutines && s.memory <= base.memory+moreMemory {
			fmt.Printf("chaos: burstd had %d goroutines and %.1f MB at the start, %d and %.1f MB at the end\n",
				base.goroutines, float64(base.memory)/1e6, s.goroutines, float64(s.memory)/1e6)
			return
		}
	}
	w.t.Errorf("burstd had %+v at the start and has %+v in the calm (tolerance %d goroutines, %d bytes): %v", base, s, moreGoroutines, moreMemory, err)
}

// table prints what the world has survived.
func (w *world) table(storm []event) {
	planned := map[string]int{}
	for _, e := range storm {
		planned[e.kind]++
	}
	kinds := make([]string, 0, len(planned))
	for k := range planned {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	lost, _ := filepath.Glob(filepath.Join(w.Work, "unresolved.*.log")) // the pattern is right
	if len(w.deaths) == 0 && len(lost) > 0 {
		w.t.Errorf("slurmctld was never killed, and jobs were not told their nodes' addresses: %v", lost)
	}
	if w.held > 0 {
		fmt.Printf("chaos: %d times a slurmctld that had been killed started a job twice, noticed, and held it; an admin released it\n", w.held)
	}
	if len(lost) > 0 {
		fmt.Printf("chaos: %d jobs were not told their nodes' addresses by a slurmctld that had been killed, and requeued themselves\n", len(lost))
	}
	fmt.Printf("chaos: %-34s %8s %8s\n", "", "planned", "met")
	for _, k := range kinds {
		fmt.Printf("chaos: %-34s %8d %8d\n", k, planned[k], w.met[k])
	}
}
