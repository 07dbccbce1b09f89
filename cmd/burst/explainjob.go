package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
)

// isJobID matches a job's id, and not a script: that may be named ./17.
var isJobID = regexp.MustCompile(`^[0-9]+(_[0-9]+)?$`).MatchString

// runExplainJob says what burstd says of a job that is submitted.
func runExplainJob(ctx context.Context, w io.Writer, client *api.Client, id string, asJSON bool) error {
	all, err := client.Explain(ctx, api.ExplainAsk{Job: id})
	var refused *api.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return cli.WithHint(err, "a script of that name is ./%s; sacct has what ended long ago", id)
	case err != nil:
		return explain(err)
	case asJSON:
		return writeJSON(w, append([]api.Explained{}, all...)) // [] in JSON, not null
	}
	for i, e := range all {
		if i > 0 {
			fmt.Fprintln(w) // the line after it has the error
		}
		head := fmt.Sprintf("job %s", e.Job)
		if e.User != "" {
			head += " of " + e.User
		}
		if _, err := fmt.Fprintln(w, printable(fmt.Sprintf("%s, %s: %s", head, e.State, e.Line))); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		if err := writeCloud(w, e); err != nil {
			return err
		}
	}
	return nil
}

// writeCloud writes where a job is or would be, and what else is known.
func writeCloud(w io.Writer, e api.Explained) error {
	head, waits := []string{"PARTITION", "POOL", "PROVIDER", "OFFERING", "NODES", "USD/H", "AS OF"}, slices.ContainsFunc(e.Where, func(p api.Place) bool { return p.When != "" })
	if waits {
		head = append(head, "WHEN")
	}
	rows := [][]string{append(head, "FORBIDDEN")}
	for _, p := range e.Where {
		usd, at := "-", "-"
		if p.USDPerHour != nil {
			usd, at = strconv.FormatFloat(*p.USDPerHour, 'f', 4, 64), p.Priced.UTC().Format(time.DateOnly)
		}
		row := []string{orDash(p.Partition), p.Pool, orDash(p.Provider), orDash(p.Offering), strconv.Itoa(p.Nodes), usd, at}
		if waits {
			row = append(row, orDash(p.When))
		}
		rows = append(rows, append(row, orDash(p.Forbidden)))
	}
	if len(rows) > 1 {
		fmt.Fprintln(w) // the line after it has the error
		if err := writeTable(w, rows); err != nil {
			return err
		}
	}
	for _, text := range e.Details {
		if _, err := fmt.Fprintln(w, "- "+printable(text)); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

// inCloud asks burstd what would become of the script's job; where it does not answer, that is said, with what the file
// alone tells. Whatever fails, the rest of explain is worth saying.
func (e *explained) inCloud(ctx context.Context, cfg *config.Config, w api.Would, stay bool) {
	ctx, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	client := api.NewClient(cfg.Endpoint.Socket)
	defer client.Close()
	all, err := client.Explain(ctx, api.ExplainAsk{Would: &w})
	switch {
	case err == nil && len(all) == 1:
		e.Cloud = &all[0]
	case cfg.Pools == nil:
		return // no file is read, and nothing is known here
	default:
		e.Cloud = fromFile(cfg, w, stay)
		e.Cloud.Details = append(e.Cloud.Details, "burstd was not asked, and what its rules, budgets and pools say now is left out: "+away(err))
	}
	if len(w.Script) == api.MaxScript {
		e.Cloud.Details = append(e.Cloud.Details, fmt.Sprintf("only its first %d KiB were looked at for paths and #BURST lines", api.MaxScript>>10))
	}
}

// explainPatience is how long burstd has to say what would become of a script.
const explainPatience = 10 * time.Second

func away(err error) string {
	if err == nil || errors.Is(err, api.ErrAway) {
		return "it does not answer here"
	}
	return err.Error()
}

// fromFile is what burst.toml tells of a job's way into the cloud.
func fromFile(cfg *config.Config, w api.Would, stay bool) *api.Explained {
	e := &api.Explained{State: "SCRIPT", Where: []api.Place{}, Details: []string{}}
	own := split(w.Partition)
	in := func(p string) bool { return slices.Contains(own, p) }
	paths := slurm.Waiting{WorkDir: w.WorkDir, Stdin: w.Stdin, Stdout: w.Stdout, Stderr: w.Stderr}
	lacks := func(partition string) string { return overflow.Lacks(cfg.Overflow.Shared[partition], &paths) }
	var pools, rules, idle []string
	for _, p := range cfg.Pools {
		if in(p.Slurm.Partition) {
			if why := lacks(p.Slurm.Partition); why != "" && !slices.Contains(e.Details, why+overflow.AtOnce) {
				e.Details = append(e.Details, why+overflow.AtOnce)
			}
			pools = append(pools, p.Power.Name)
			e.Where = append(e.Where, api.Place{Partition: p.Slurm.Partition, Pool: p.Power.Name, Provider: p.Power.Provider, Nodes: max(1, w.Nodes)})
		}
	}
	for _, r := range cfg.Overflow.Rules {
		switch {
		case !slices.ContainsFunc(r.From, in):
		case slices.ContainsFunc(r.To, func(to string) bool { return lacks(to) == "" }):
			rules = append(rules, r.Name)
		default:
			idle = append(idle, lacks(r.To[0]))
		}
	}
	switch {
	case len(own) == 0:
		e.Line = "names no partition: where it runs is not known"
	case len(pools) > 0:
		e.Line = "would start in the cloud, in pool " + strings.Join(pools, " or ")
	case len(rules) == 0 && len(idle) > 0:
		e.Line = "would stay at the site: " + idle[0]
	case len(rules) == 0:
		e.Line = fmt.Sprintf("would stay at the site: no rule of overflow is from partition %s", w.Partition)
	case stay:
		e.Line = "would stay at the site: says #BURST stay"
	default:
		e.Line = "may go to the cloud by one of the rules " + strings.Join(rules, ", ")
	}
	return e
}

// wouldOf is the job that sbatch would make of the script.
func wouldOf(o explainOptions, j batchJob) api.Would {
	last := func(names ...string) string {
		v, _ := j.head.Last(names...)
		return v.Value
	}
	count := func(v string) int {
		v, _, _ = strings.Cut(v, "-")
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > maxCount {
			return 0
		}
		return n
	}
	w := api.Would{Script: j.script[:min(len(j.script), api.MaxScript)], Comment: j.said.Comment, Partition: last("partition"), Account: last("account"), QOS: last("qos"),
		Nodes: count(last("nodes")), Tasks: count(last("ntasks")), CPUs: max(1, count(last("cpus-per-task"))), Features: last("constraint"), Licenses: last("licenses"),
		MinCPUs: count(last("mincpus")), PerJob: gresOf(last("gpus")), PerTask: gresOf(last("gpus-per-task")), PerSocket: gresOf(last("gpus-per-socket")), Required: last("nodelist"), Reserved: last("reservation"), WorkDir: last("chdir"), Het: j.head.Parts > 1}
	if o.partition != "" {
		w.Partition = o.partition
	}
	if w.WorkDir == "" {
		w.WorkDir, _ = os.Getwd() // sbatch's own default
	}
	for _, of := range []struct {
		to   *string
		from string
	}{{&w.Stdin, last("input")}, {&w.Stdout, last("output")}, {&w.Stderr, last("error")}} {
		if *of.to = of.from; of.from != "" && !filepath.IsAbs(of.from) {
			*of.to = filepath.Join(w.WorkDir, of.from)
		}
	}
	each := count(last("ntasks-per-node"))
	switch {
	case w.Tasks == 0:
		w.Nodes = max(1, w.Nodes)
		w.Tasks = w.Nodes * max(1, each)
	case w.Nodes == 0 && each > 0:
		w.Nodes = (w.Tasks + each - 1) / each
	}
	w.PerNode = last("gres")
	if g := gresOf(last("gpus-per-node")); g != "" {
		w.PerNode = strings.TrimPrefix(w.PerNode+","+g, ",")
	}
	mem := last("mem")
	w.Memory, w.AllMemory = memoryOf(mem), mem != "" && strings.Trim(mem, "0kKmMgGtT") == ""
	if per := memoryOf(last("mem-per-cpu")); per > 0 {
		w.Memory = per * w.CPUs * max(1, w.Tasks/max(1, w.Nodes))
		if w.Nodes == 0 { // how many tasks are on one is not known
			w.Memory = per * w.CPUs
		}
	}
	if per := memoryOf(last("mem-per-gpu")); per > 0 {
		w.Memory = per * gpusOfNode(w)
	}
	w.Limit = limitOf(last("time"))
	_, w.Whole = j.head.Last("exclusive")
	_, w.Held = j.head.Last("hold")
	return w
}

// maxCount is more than any job has nodes or tasks.
const maxCount = 1 << 20

// gpusOfNode is how many GPUs the job gets of a node, at least 1.
func gpusOfNode(w api.Would) int {
	of := func(list string) int {
		counts, _ := slurm.Gres(list) // not understood: none
		return min(counts["gpu"], maxCount)
	}
	nodes, tasks := max(1, w.Nodes), max(1, w.Tasks)
	return max(1, of(w.PerNode), (of(w.PerJob)+nodes-1)/nodes, of(w.PerTask)*((tasks+nodes-1)/nodes))
}

// gresOf writes "2" or "a100:2" as GRES.
func gresOf(gpus string) string {
	if gpus == "" {
		return ""
	}
	return "gpu:" + gpus
}

// memoryOf reads "4G" in MiB; 0: all, or not understood.
func memoryOf(v string) int {
	if v == "" {
		return 0
	}
	unit := 1.0
	switch v[len(v)-1] | 0x20 {
	case 'k':
		unit = 1. / 1024
	case 'g':
		unit = 1024
	case 't':
		unit = 1 << 20
	}
	n, err := strconv.ParseFloat(strings.TrimRight(v, "kKmMgGtT"), 64)
	if err != nil || n < 0 || n*unit > 1<<40 {
		return 0
	}
	return int(n * unit)
}

// limitOf reads --time: minutes, or as Slurm writes a time. 0: none.
func limitOf(v string) time.Duration {
	if n, err := strconv.Atoi(v); err == nil {
		v = fmt.Sprintf("%d:00", max(0, n))
	}
	limit, err := slurm.ParseLimit(v)
	if err != nil {
		return 0
	}
	return limit
}
