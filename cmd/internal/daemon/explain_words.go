package daemon

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
)

// ended says that Slurm shows the job as one that has.
func ended(j slurm.Job) bool {
	switch j.State {
	case "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED":
		return true
	}
	return false
}

// held says that the job is in the queue, and stays there until somebody releases it. One that is held
// and has not run is PENDING.
func held(j slurm.Job) bool {
	return j.State == "REQUEUE_HOLD" || j.State == "SPECIAL_EXIT" || j.State == "RESV_DEL_HOLD"
}

func rowName(j slurm.Job) string {
	switch {
	case j.ArrayTask == "":
		return fmt.Sprint(j.ID)
	case strings.Trim(j.ArrayTask, "0123456789") == "":
		return fmt.Sprintf("%d_%s", j.ArrayID, j.ArrayTask)
	}
	return fmt.Sprintf("%d_[%s]", j.ArrayID, j.ArrayTask)
}

// placed names places: "2 nodes of pool c6i (c6i.large/us-east-1a/spot at aws, 0.14 USD/h as of 2026-11-22)".
func placed(places []api.Place) string {
	var all []string
	for _, p := range places {
		text := fmt.Sprintf("%s of pool %s", countNodes(p.Nodes), p.Pool)
		var more []string
		if p.Offering != "" {
			more = append(more, p.Offering+" at "+p.Provider)
		}
		if price := priced(p); price != "" {
			more = append(more, price)
		}
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, " and ")
}

func countNodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// priced is the price of a place with its date.
func priced(p api.Place) string {
	switch {
	case p.USDPerHour == nil && p.Offering == "":
		return ""
	case p.USDPerHour == nil:
		return "price not known"
	}
	return fmt.Sprintf("%.4g USD/h as of %s", *p.USDPerHour, p.Priced.UTC().Format(time.DateOnly))
}

// short is a time for people: "12m", "1h30m".
func short(d time.Duration) string {
	text := d.Truncate(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// whenMoved says when a rule moves a job.
func whenMoved(r overflow.Rule) string {
	var all []string
	if r.After > 0 {
		all = append(all, fmt.Sprintf("after it has waited %s for Resources or Priority", short(r.After)))
	}
	if r.StartsLater > 0 {
		all = append(all, fmt.Sprintf("if Slurm says that it starts in more than %s", short(r.StartsLater)))
	}
	return cmp.Or(strings.Join(all, " or "), "as soon as it has to wait for Resources or Priority")
}

// reasonOf has Slurm's reason in words.
func reasonOf(j slurm.Job, now time.Time) string {
	words := map[string]string{"Resources": "nodes to be free", "Priority": "jobs that come before it", "Dependency": "jobs that it depends on",
		"DependencyNeverSatisfied": "a job that it depends on, in vain", "JobHeldUser": "its user to release it", "JobHeldAdmin": "an admin to release it",
		"Licenses": "licences", "JobArrayTaskLimit": "other tasks of its array", "Reservation": "its reservation", "BadConstraints": "nodes as it asks for, of which Slurm knows too few",
		"PartitionTimeLimit": "a time limit that its partition allows", "PartitionNodeLimit": "a number of nodes that its partition allows", "PartitionDown": "its partition to be up", "PartitionInactive": "its partition to be active"}
	r := j.Reason
	switch {
	case r == "" || r == "None":
		return "Slurm to look at it"
	case r == "BeginTime":
		return "its start time" + since(", ", j.Eligible, now) + " (BeginTime)"
	case words[r] != "":
		return fmt.Sprintf("%s (%s)", words[r], r)
	case strings.HasPrefix(r, "Assoc") || strings.HasPrefix(r, "QOS") || strings.HasPrefix(r, "MaxCpu"):
		return fmt.Sprintf("a limit of its account or QOS (%s)", r)
	}
	return r
}

// lineOfRun is of a job that Slurm may have forgotten.
func lineOfRun(r api.Job) string {
	if !r.Over {
		return fmt.Sprintf("was %s when it was seen last; Slurm does not show it now", r.State)
	}
	text := fmt.Sprintf("has ended: %s at %s, after %s of running", r.State, r.Ended.Local().Format(time.DateTime), short(time.Duration(r.Seconds*float64(time.Second))))
	if r.Attempts > 1 {
		text += fmt.Sprintf(" in %d attempts", r.Attempts)
	}
	if r.Pool != "" {
		text += fmt.Sprintf(", on %s of pool %s", countNodes(r.Nodes), r.Pool)
	}
	if r.Evictions > 0 {
		text += fmt.Sprintf(", with %d eviction", r.Evictions) + map[bool]string{true: "s"}[r.Evictions > 1]
	}
	if r.USD != nil {
		text += fmt.Sprintf(", for %.4f USD", *r.USD)
	}
	return text
}

// since is a time behind words, "" without one.
func since(before string, t, now time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return ""
	}
	return before + clock(t, now)
}

// clock is a time, with its day if that is not today.
func clock(t, now time.Time) string {
	if t.Local().Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return t.Local().Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}
