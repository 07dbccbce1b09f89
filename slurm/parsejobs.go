package slurm

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// jobFields are squeue's names of what we read of a job, in this order.
var jobFields = []struct {
	name string
	set  func(j *Job, v string) error
}{
	{"JobID", func(j *Job, v string) error { return parseID(v, &j.ID) }},
	{"ArrayJobID", func(j *Job, v string) error { return parseID(v, &j.ArrayID) }},
	{"ArrayTaskID", func(j *Job, v string) error { j.ArrayTask = known(v); return nil }},
	{"HetJobID", func(j *Job, v string) error { return parseID(v, &j.HetID) }},
	{"UserID", func(j *Job, v string) error { return parseInt(v, &j.UID) }},
	{"UserName", func(j *Job, v string) error { j.User = known(v); return nil }},
	{"Account", func(j *Job, v string) error { j.Account = known(v); return nil }},
	{"Partition", func(j *Job, v string) error { j.Partition = known(v); return nil }},
	{"State", func(j *Job, v string) error { j.State = baseState(v); return nil }},
	{"Reason", func(j *Job, v string) error { j.Reason = known(v); return nil }},
	{"Requeue", func(j *Job, v string) error { return parseBool(v, &j.Requeue) }},
	{"BatchFlag", func(j *Job, v string) error { return parseBatch(v, &j.Batch) }},
	{"RestartCnt", func(j *Job, v string) error { return parseInt(v, &j.Restarts) }},
	{"exit_code", parseExit},
	{"NumNodes", func(j *Job, v string) error { return parseCount(v, &j.NumNodes) }},
	{"NodeList", func(j *Job, v string) error { j.Nodes = known(v); return nil }},
	{"BatchHost", func(j *Job, v string) error { j.BatchHost = known(v); return nil }},
	{"SubmitTime", func(j *Job, v string) error { return parseTime(v, &j.Submitted) }},
	{"EligibleTime", func(j *Job, v string) error { return parseTime(v, &j.Eligible) }},
	{"StartTime", func(j *Job, v string) error { return parseTime(v, &j.Start) }},
	{"EndTime", func(j *Job, v string) error { return parseTime(v, &j.End) }},
	{"Name", func(j *Job, v string) error { j.Name = v; return nil }},
	{"Comment", func(j *Job, v string) error { j.Comment = unset(v); return nil }},
	{"admin_comment", func(j *Job, v string) error { j.AdminComment = unset(v); return nil }},
	{"Feature", func(j *Job, v string) error { j.Features = unset(v); return nil }},
	{"ReqNodes", func(j *Job, v string) error { j.Required = known(v); return nil }},
	{"TimeLimit", func(j *Job, v string) error { j.TimeLimit, _ = ParseLimit(v); return nil }}, // what is not understood is none: no job may make a reading fail
}

// baseState is a job's state as all versions have it: EXPEDITING, since 25.11, is PENDING of a job
// that is to start again before all others (--requeue=expedite).
func baseState(v string) string {
	if v = strings.ToUpper(v); v == "EXPEDITING" {
		return "PENDING"
	}
	return v
}

// jobFormat is squeue's -O for jobFields.
func jobFormat(mark string) string {
	names := make([]string, len(jobFields))
	for i, f := range jobFields {
		names[i] = f.name
	}
	return squeueFormat(names, mark)
}

// squeueFormat is squeue's -O for the fields. Each ends with the mark: a
// job's name and comment may hold any bytes, also new lines and whole forged
// records, so that only a mark which nobody can guess tells where a field ends.
// A field with a suffix but no width is printed whole and unpadded.
func squeueFormat(names []string, mark string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + ":" + mark)
	}
	return b.String()
}

// squeueRows cuts what squeue printed into rows of n fields.
func squeueRows(out []byte, mark string, n int) ([][]string, error) {
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	fields := strings.Split(string(out), mark)
	end := strings.TrimSpace(fields[len(fields)-1])
	fields = fields[:len(fields)-1]
	if end != "" || len(fields)%n != 0 {
		return nil, fmt.Errorf("squeue's answer is cut off or not in our format: it ends with %.80q", end)
	}
	rows := make([][]string, 0, len(fields)/n)
	for row := range slices.Chunk(fields, n) {
		row[0] = strings.TrimLeft(row[0], "\n")
		rows = append(rows, row)
	}
	return rows, nil
}

// parseJobs reads what squeue printed for jobFormat(mark).
func parseJobs(out []byte, mark string) ([]Job, error) {
	rows, err := squeueRows(out, mark, len(jobFields))
	if err != nil || rows == nil {
		return nil, err
	}
	jobs := make([]Job, 0, len(rows))
	for _, row := range rows {
		var j Job
		for i, f := range jobFields {
			if err := f.set(&j, row[i]); err != nil {
				return nil, fmt.Errorf("squeue's %s of job %d: %w", f.name, j.ID, err)
			}
		}
		if j.ID == 0 {
			return nil, fmt.Errorf("squeue's answer has a job without an id: %.80q", row[0])
		}
		if j.ArrayTask == "" {
			j.ArrayID = 0 // squeue shows the job's own id
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// parseExit reads a batch script's end: a wait status in squeue ("768",
// "9"), code:signal in scontrol and some versions ("3:0").
func parseExit(j *Job, v string) error {
	code, signal, pair := strings.Cut(v, ":")
	if pair {
		if err := parseInt(code, &j.ExitCode); err != nil {
			return err
		}
		return parseInt(signal, &j.ExitSignal)
	}
	var status int
	if err := parseInt(v, &status); err != nil {
		return err
	}
	j.ExitCode, j.ExitSignal = status>>8&0xff, status&0x7f
	return nil
}

// unset is v, or "" where Slurm says that nothing is there.
func unset(v string) string {
	if v == "(null)" {
		return ""
	}
	return v
}

// known is unset for values in which Slurm also has words for "not known".
func known(v string) string {
	switch v {
	case "(null)", "N/A", "n/a", "Unknown", "None assigned", "None", "NONE":
		return ""
	}
	return v
}

func parseID(v string, id *uint32) error {
	if known(v) == "" {
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 32)
	*id = uint32(n)
	return err
}

func parseInt(v string, i *int) (err error) {
	if known(v) == "" {
		return nil
	}
	*i, err = strconv.Atoi(v)
	return err
}

// parseCount reads a number that may be a range ("1-4": the least counts) or
// be cut to thousands or millions ("10K").
func parseCount(v string, i *int) error {
	v, _, _ = strings.Cut(v, "-")
	unit := 1
	switch {
	case strings.HasSuffix(v, "K"):
		unit = 1 << 10
	case strings.HasSuffix(v, "M"):
		unit = 1 << 20
	}
	if unit == 1 {
		return parseInt(v, i)
	}
	n, err := strconv.ParseFloat(v[:len(v)-1], 64)
	*i = int(n * float64(unit))
	return err
}

// parseBatch reads BatchFlag: Slurm counts failed launches of the script in it.
func parseBatch(v string, batch *bool) error {
	if n, err := strconv.Atoi(v); err == nil && n > 0 {
		*batch = true
		return nil
	}
	return parseBool(v, batch)
}

func parseBool(v string, b *bool) error {
	switch strings.ToLower(v) {
	case "1", "yes", "true":
		*b = true
	case "0", "no", "false", "":
		*b = false
	default:
		return fmt.Errorf("%q is neither 0 nor 1", v)
	}
	return nil
}

// parseTime reads seconds since 1970 (SLURM_TIME_FORMAT=%s) or Slurm's usual
// local time without a zone. Words (Unknown, N/A, None, NONE, INFINITE) are no time.
func parseTime(v string, t *time.Time) error {
	if v == "" || v[0] < '0' || v[0] > '9' {
		*t = time.Time{}
		return nil
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		*t = time.Unix(n, 0)
		return nil
	}
	parsed, err := time.ParseInLocation("2006-01-02T15:04:05", v, time.Local)
	*t = parsed
	return err
}
