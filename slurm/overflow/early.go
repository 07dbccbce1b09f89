package overflow

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// early says why it is too early to move the job; "": it is time.
func (d *decider) early(j *job, r *Rule) string {
	if reason := waitsFor(j.Waiting); reason != "Resources" && reason != "Priority" {
		return "stays for now: it waits for " + cmp.Or(j.Reason, "Slurm to look at it") + ", not for Resources or Priority"
	}
	if r.After == 0 && r.StartsLater == 0 || r.After > 0 && d.waited(j) >= r.After || r.StartsLater > 0 && j.Start.Sub(d.Now) > r.StartsLater {
		return ""
	}
	text := fmt.Sprintf("stays for now: %s; rule %s moves it", d.waits(j, r), r.Name)
	if r.After > 0 {
		text += " after " + short(r.After)
	}
	if r.After > 0 && r.StartsLater > 0 {
		text += ", or"
	}
	if r.StartsLater > 0 {
		text += " if Slurm says that it starts in more than " + short(r.StartsLater)
	}
	return text
}

// forNodes says that the reason is Slurm's for a job that is the next, while nodes that it could have
// are down or kept, as for a maintenance: squeue has it in words, or with "_" between them. Of a job that
// names its nodes "not available" is about those.
func forNodes(w *slurm.Waiting) bool {
	return strings.HasPrefix(strings.ReplaceAll(w.Reason, "_", " "), "Nodes required for job are DOWN, DRAINED") ||
		strings.HasPrefix(w.Reason, "ReqNodeNotAvail") && w.Required == ""
}

// waitsFor is the job's reason. One that was told what keeps it has waited for nodes: with any update Slurm has no reason until it
// looks at the job again.
func waitsFor(w *slurm.Waiting) string {
	switch {
	case forNodes(w):
		return "Resources"
	case (w.Reason == "" || w.Reason == "None") && strings.HasPrefix(w.AdminComment, KeptText):
		return "Priority"
	}
	return w.Reason
}

func (d *decider) waited(j *job) time.Duration {
	if j.Eligible.IsZero() {
		return 0
	}
	return d.Now.Sub(j.Eligible)
}

func (d *decider) waits(j *job, r *Rule) string {
	text := fmt.Sprintf("waits %s for %s", short(d.waited(j)), waitsFor(j.Waiting))
	if in := j.Start.Sub(d.Now); r.StartsLater > 0 && !j.Start.IsZero() && in > 0 {
		text += ", starts in " + short(in)
	}
	return text
}

// short is a time for people: "12m", "1h30m", "40s".
func short(t time.Duration) string {
	unit := time.Second
	if t >= 10*time.Minute {
		unit = time.Minute
	}
	text := t.Truncate(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
