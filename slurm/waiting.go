package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Waiting is a pending job, or the tasks of an array that wait alike, with what it asks for.
type Waiting struct {
	Job
	Needs
	QOS      string `json:"qos,omitempty"`
	Priority int64  `json:"priority"`
	Licenses string `json:"licenses,omitempty"`  // as "matlab:2,x"
	Total    int    `json:"total,omitempty"`     // MiB of all its nodes; 0: not known
	MaxNodes int    `json:"max_nodes,omitempty"` // that it may get, and of one without --nodes those that Slurm thinks it needs; 0: not known
	Whole    bool   `json:"whole,omitempty"`     // it gets whole nodes (--exclusive), or may: see Unread
	Unread   string `json:"unread,omitempty"`    // squeue's word for that, if nobody here knows it
	WorkDir  string `json:"work_dir"`
	Stdin    string `json:"stdin,omitempty"`
	Stdout   string `json:"stdout,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
}

type waitingField struct {
	name string
	set  func(w *Waiting, v string) error
}

// waitingFields are squeue's names of it: those of Job, of Needs, and these. Of a field that it does not know
// squeue prints nothing, and says so on stderr only.
var waitingFields = func() (all []waitingField) {
	for _, f := range jobFields {
		all = append(all, waitingField{f.name, func(w *Waiting, v string) error { return f.set(&w.Job, v) }})
	}
	for _, f := range needFields[1:] {
		all = append(all, waitingField{f.name, func(w *Waiting, v string) error { return f.set(&w.Needs, v) }})
	}
	text := func(of func(w *Waiting) *string) func(*Waiting, string) error {
		return func(w *Waiting, v string) error { *of(w) = known(v); return nil }
	}
	return append(all,
		waitingField{"QOS", text(func(w *Waiting) *string { return &w.QOS })},
		waitingField{"PriorityLong", func(w *Waiting, v string) (err error) { w.Priority, err = strconv.ParseInt(v, 10, 64); return err }},
		waitingField{"Licenses", text(func(w *Waiting) *string { return &w.Licenses })},
		waitingField{"tres-alloc", func(w *Waiting, v string) error { return parseTotal(v, &w.Total) }},
		waitingField{"MaxNodes", func(w *Waiting, v string) error { return parseCount(v, &w.MaxNodes) }},
		waitingField{"WorkDir", text(func(w *Waiting) *string { return &w.WorkDir })},
		waitingField{"STDIN", text(func(w *Waiting) *string { return &w.Stdin })},
		waitingField{"STDOUT", text(func(w *Waiting) *string { return &w.Stdout })},
		waitingField{"STDERR", text(func(w *Waiting) *string { return &w.Stderr })},
		waitingField{"OverSubscribe", func(w *Waiting, v string) error { w.setWhole(oversubscribe, "OverSubscribe", v); return nil }},
		waitingField{"Exclusive", func(w *Waiting, v string) error { // after OverSubscribe
			if v != "" {
				w.setWhole(exclusive, "Exclusive", v)
			}
			return nil
		}},
	)
}()

// Waiting reads the pending jobs, with what they ask for, in one call.
func (c *Client) Waiting(ctx context.Context) ([]Waiting, error) {
	mark := c.mark()
	out, err := c.run(ctx, "squeue", "-h", "-a", "--local", "-t", "PENDING", "-O", waitingFormat(mark))
	if err != nil {
		return nil, fmt.Errorf("reading pending jobs: %w", err)
	}
	all, err := parseWaiting(out, mark)
	if err != nil {
		return nil, fmt.Errorf("reading pending jobs: %w", err)
	}
	return all, nil
}

func waitingFormat(mark string) string {
	names := make([]string, len(waitingFields))
	for i, f := range waitingFields {
		names[i] = f.name
	}
	return squeueFormat(names, mark)
}

// Slurm's words for which of a job's nodes others may use too, and whether it gets them whole.
// Up to 25.11 OverSubscribe says all of it. From 26.05 on Exclusive does, and OverSubscribe only
// whether CPUs are shared: it is NO of nearly every job. src/common/slurm_protocol_defs.c of each.
var (
	oversubscribe = map[string]bool{"NO": true, "TOPO": true, "YES": false, "OK": false, "USER": false, "MCS": false}
	exclusive     = map[string]bool{"NODE": true, "TOPO": true, "NO": false, "USER": false, "MCS": false}
)

// setWhole takes a job whose word is not known for one of whole nodes: it fits on fewer.
func (w *Waiting) setWhole(words map[string]bool, field, v string) {
	whole, known := words[strings.ToUpper(v)]
	w.Whole, w.Unread = whole || !known, ""
	if !known {
		w.Unread = field + "=" + v
	}
}

// parseWaiting reads what squeue printed for waitingFormat(mark).
func parseWaiting(out []byte, mark string) ([]Waiting, error) {
	rows, err := squeueRows(out, mark, len(waitingFields))
	if err != nil {
		return nil, err
	}
	all := make([]Waiting, 0, len(rows))
	for _, row := range rows {
		var w Waiting
		for i, f := range waitingFields {
			if err := f.set(&w, row[i]); err != nil {
				return nil, fmt.Errorf("squeue's %s of job %d: %w", f.name, w.ID, err)
			}
		}
		if w.ID == 0 {
			return nil, fmt.Errorf("squeue's answer has a job without an id: %.80q", row[0])
		}
		if w.ArrayTask == "" {
			w.ArrayID = 0
		}
		all = append(all, w)
	}
	return all, nil
}

// maxLimit is longer than any job runs, and fits into a time.Duration with room for sums.
const maxLimit = 36500 * 24 * time.Hour

// ParseLimit reads a time limit as Slurm writes it: "5:00", "1-02:04:00". Words
// (UNLIMITED, NOT_SET, …) and "" are none, 0. One of more than maxLimit is that.
func ParseLimit(v string) (time.Duration, error) {
	if v == "" || v[0] < '0' || v[0] > '9' {
		return 0, nil
	}
	days, rest, withDays := strings.Cut(v, "-")
	if !withDays {
		days, rest = "0", v
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no time limit", v)
	}
	sum, parts := uint64(0), strings.Split(rest, ":") // of three numbers of 32 bits
	for _, p := range parts {
		of, err := strconv.ParseUint(p, 10, 32)
		if err != nil || len(parts) > 3 {
			return 0, fmt.Errorf("%q is no time limit", v)
		}
		sum = sum*60 + of
	}
	if withDays { // "1-02", "1-02:04"
		for range 3 - len(parts) {
			sum *= 60
		}
	}
	sum += n * uint64(24*time.Hour/time.Second)
	return time.Duration(min(sum, uint64(maxLimit/time.Second))) * time.Second, nil
}

// parseTotal reads the memory of "cpu=2,mem=1000M,node=1".
func parseTotal(v string, mib *int) error {
	for _, item := range strings.Split(v, ",") {
		if mem, ok := strings.CutPrefix(item, "mem="); ok {
			return parseMemory(mem, mib)
		}
	}
	return nil
}

// ArrayTasks are those of an array that the job stands for, in order; none: it is no part of an
// array. Slurm cuts a long list off: then they are those that it shows.
func (j Job) ArrayTasks() []int {
	list, _, _ := strings.Cut(j.ArrayTask, "%")
	list, cut := strings.CutSuffix(list, "...")
	items := strings.Split(list, ",")
	if cut { // the last one's digits may be cut, too
		items = items[:len(items)-1]
	}
	var all []int
	for _, item := range items {
		span, by, _ := strings.Cut(item, ":")
		first, last, isSpan := strings.Cut(span, "-")
		from, err := strconv.Atoi(first)
		to, step := from, 1
		if isSpan && err == nil {
			to, err = strconv.Atoi(last)
		}
		if by != "" && err == nil {
			step, err = strconv.Atoi(by)
		}
		if err != nil || step < 1 || step > maxTasks || from < 0 || to > maxTasks || len(all) > maxTasks {
			continue
		}
		for t := from; t <= to; t += step {
			all = append(all, t)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// maxTasks is more than any array of Slurm's has (MaxArraySize).
const maxTasks = 4_000_001

// Move is a pending job's change of partitions.
type Move struct {
	Partitions []string
	Tasks      []int // of an array: these only, which Slurm then has as jobs of their own
	// Begin lets the job start at once, whatever start was set for it.
	Begin bool
	Told  string // what its AdminComment then says; empty: it stays
}

// SetPartitions gives a pending job other partitions. ErrNotPending when the job, or one of the
// tasks, has begun or ended: the other tasks were updated. See Refused.
func (c *Client) SetPartitions(ctx context.Context, j Job, m Move) error {
	for _, p := range m.Partitions {
		if err := checkWord(p); err != nil {
			return fmt.Errorf("partitions of job %d: %w", j.ID, err)
		}
	}
	name := decimal(j.ID)
	if j.ArrayTask != "" {
		name = fmt.Sprintf("%d_[%s]", j.ArrayID, taskList(m.Tasks))
	}
	args := []string{"update", "jobid=" + name, "partition=" + strings.Join(m.Partitions, ",")}
	if m.Begin {
		args = append(args, "starttime=now")
	}
	if m.Told != "" {
		args = append(args, "admincomment="+printable(m.Told))
	}
	if err := c.change(ctx, args...); err != nil {
		return fmt.Errorf("changing the partitions of job %s: %w", clip(name), err)
	}
	return nil
}

// taskList names tasks, those in a row of a long list by their span: one argument has to hold it.
func taskList(tasks []int) string {
	const long = 200
	var words []string
	for i := 0; i < len(tasks); {
		n := 1
		for len(tasks) > long && i+n < len(tasks) && tasks[i+n] == tasks[i]+n {
			n++
		}
		word := strconv.Itoa(tasks[i])
		if n > 1 {
			word += "-" + strconv.Itoa(tasks[i+n-1])
		}
		words = append(words, word)
		i += n
	}
	return strings.Join(words, ",")
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
