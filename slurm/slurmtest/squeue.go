package slurmtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// queueFields are squeue's -O names, lower case, and what it prints for them.
var queueFields = map[string]func(j *job) string{
	"jobid":         func(j *job) string { return strconv.Itoa(int(j.id)) },
	"arrayjobid":    func(j *job) string { return strconv.Itoa(int(j.id)) },
	"arraytaskid":   func(*job) string { return "N/A" },
	"hetjobid":      func(*job) string { return "N/A" },
	"userid":        func(j *job) string { return strconv.Itoa(j.UID) },
	"username":      func(j *job) string { return j.User },
	"account":       func(j *job) string { return orNull(j.Account) },
	"partition":     (*job).partition,
	"state":         func(j *job) string { return j.state },
	"reason":        func(j *job) string { return j.reason },
	"requeue":       func(j *job) string { return bit(j.Requeue) },
	"batchflag":     func(j *job) string { return bit(!j.Salloc) },
	"restartcnt":    func(j *job) string { return strconv.Itoa(j.restarts) },
	"exit_code":     func(j *job) string { return strconv.Itoa(j.code<<8 | j.signal) },
	"numnodes":      func(j *job) string { return strconv.Itoa(j.nodeCount()) },
	"nodelist":      func(j *job) string { return j.nodesShown() },
	"submittime":    func(j *job) string { return stamp(j.submitted) },
	"eligibletime":  func(j *job) string { return stamp(j.begin) },
	"starttime":     func(j *job) string { return stampOr(j.startShown(), "N/A") },
	"endtime":       func(j *job) string { return stampOr(j.end, "NONE") },
	"name":          func(j *job) string { return j.Name },
	"comment":       func(j *job) string { return orNull(j.Comment) },
	"admin_comment": func(j *job) string { return orNull(j.admin) },
	"feature":       func(j *job) string { return orNull(j.Features) },
	"reqnodes":      func(*job) string { return "" },
	"timelimit":     func(j *job) string { return j.limit() },
	// What a job needs of its nodes: all have one size, and a job has them whole.
	"numcpus":         func(j *job) string { return strconv.Itoa(j.nodeCount()) },
	"mincpus":         func(*job) string { return "1" },
	"numtasks":        func(j *job) string { return strconv.Itoa(j.nodeCount()) },
	"minmemory":       func(*job) string { return "0" },
	"tres-per-node":   func(*job) string { return "N/A" },
	"tres-per-job":    func(*job) string { return "N/A" },
	"tres-per-task":   func(*job) string { return "N/A" },
	"tres-per-socket": func(*job) string { return "N/A" },
	"reservation":     func(*job) string { return "(null)" },
	"batchhost": func(j *job) string {
		if j.batch == "" {
			return "n/a"
		}
		return j.batch
	},
}

// squeue prints jobs with -O and fields that end with a suffix ("JobID:@"),
// the only form of it in which nothing is cut or padded.
func (c *Controller) squeue(args []string) answer {
	format, ids, states := "", "", ""
	for i := 0; i < len(args); i++ {
		switch a := args[i]; a {
		case "-h", "--noheader", "-a", "--all", "--local":
		case "-O", "--Format", "-j", "--jobs", "-t", "--states":
			i++
			if i == len(args) {
				return answer{unknown: true}
			}
			switch strings.TrimLeft(a, "-") {
			case "O", "Format":
				format = args[i]
			case "j", "jobs":
				ids = args[i]
			default:
				states = strings.ToUpper(args[i])
			}
		default:
			return answer{unknown: true}
		}
	}
	if c.down {
		return failure(1, "slurm_load_jobs error: "+noController)
	}
	jobs := c.sorted()
	if ids != "" {
		jobs = nil
		for id := range strings.SplitSeq(ids, ",") {
			if j := c.job(id); j != nil {
				jobs = append(jobs, j)
			}
		}
		if len(jobs) == 0 {
			return failure(1, "slurm_load_jobs error: Invalid job id specified")
		}
	}
	type column struct {
		value  func(*job) string
		suffix string
	}
	var columns []column
	for field := range strings.SplitSeq(format, ",") {
		name, suffix, ok := strings.Cut(field, ":")
		value := queueFields[strings.ToLower(name)]
		if !ok || value == nil {
			return answer{unknown: true}
		}
		columns = append(columns, column{value, suffix})
	}
	var b strings.Builder
	for _, j := range jobs {
		if !wanted(j, states) {
			continue
		}
		for _, c := range columns {
			b.WriteString(c.value(j))
			b.WriteString(c.suffix)
		}
		b.WriteByte('\n')
	}
	return answer{stdout: b.String()}
}

func wanted(j *job, states string) bool {
	switch states {
	case "ALL":
		return true
	case "":
		return !j.over()
	}
	return slices.Contains(strings.Split(states, ","), j.state)
}

// limit is the time limit as squeue prints it.
func (j *job) limit() string {
	if j.TimeLimit == 0 {
		return "UNLIMITED"
	}
	s := int(j.TimeLimit.Seconds())
	return fmt.Sprintf("%d-%02d:%02d:%02d", s/86400, s/3600%24, s/60%60, s%60)
}
