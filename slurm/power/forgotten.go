package power

import (
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// HeldText begins what a job is told when its start is set.
const HeldText = "burst: requeued: "

// waitsText begins what a job is told that is put off and has never begun.
const waitsText = "burst: waits: "

// Held says that a comment tells of a start that was set.
func Held(comment string) bool {
	return strings.HasPrefix(comment, HeldText) || strings.HasPrefix(comment, waitsText)
}

// endedText begins what a job is told that has no script, and ends with its nodes.
const endedText = "burst: ended: "

// heldText is what a job is told that a hold is of.
func heldText(h Hold, again bool) string {
	if !again {
		return endedText + h.Why
	}
	return HeldText + h.Why + "; " + startText(h.Start)
}

// startText is in what a job is told when its start is set to that time.
func startText(start time.Time) string {
	return "starts again from " + start.Local().Format(time.DateTime) + " on"
}

// How other words begin that a job is told before its nodes fail to come: with them its AdminComment is
// burstd's to go on with.
const (
	MovedText = "burst: rule "           // a rule of overflow has moved it, or is not about it any more
	BootText  = "burst: nodes ordered: " // nodes were ordered for it
	KeptText  = "burst: not moved: "     // a rule of overflow would move it, and may not
	AwayText  = "burst: waits for "      // it is kept from the cloud for a budget
)

// TakenBack says that a comment tells of a job's former partitions, which it has again.
func TakenBack(comment string) bool {
	return strings.HasPrefix(comment, "burst: ") && strings.Contains(comment, "; back to ")
}

// AfterMove is the text as a job is told it whose comment was had: behind the words of its move, which stay with it.
func AfterMove(had, text string) string {
	if !strings.HasPrefix(had, MovedText) {
		return text
	}
	return movedWords(had) + behind(text)
}

// movedWords is a moved job's comment without what AfterMove has put behind it.
func movedWords(comment string) string {
	for _, begin := range []string{BootText, apartText, quietText, budgetText} {
		comment, _, _ = strings.Cut(comment, behind(begin))
	}
	return comment
}

func behind(text string) string { return "; " + strings.TrimPrefix(text, "burst: ") }

// movedTo is in the words of a move, and not in those of its end.
const movedTo = ": goes also to "

// rememberFor is how long after its start a released job is looked at:
// slurmctld writes its state every few seconds.
const rememberFor = 2 * time.Minute

// forgotten plans that jobs are told again whose start slurmctld has
// forgotten: it was killed before it had written it, and has the job's state of
// before, with another start or none. What the job is told goes with it, and
// tells the two apart.
func forgotten(c *Change, m *memory, snap *slurm.Snapshot, now time.Time) {
	for id, h := range m.holds {
		if m.placed[id] == h {
			continue // it was told nothing, and given no start
		}
		j, known := snap.Jobs[id]
		if !known || !h.Released || j.State != "PENDING" || now.Sub(h.Start) > rememberFor {
			continue
		}
		// Who waits for a budget may have been moved again since, when it was changed: at worst it is refused once more.
		moved := strings.HasPrefix(j.AdminComment, MovedText) && strings.Contains(j.AdminComment, movedTo) && !strings.HasPrefix(h.Why, overBudget)
		older := Held(j.AdminComment) ||
			now.Before(h.Start) && (moved || strings.HasPrefix(j.AdminComment, BootText) || strings.HasPrefix(j.AdminComment, KeptText)) // none is written before its start
		if j.AdminComment != "" && !older || strings.Contains(j.AdminComment, startText(h.Start)) {
			continue
		}
		h.Released = false
		c.Holds = append(c.Holds, h)
	}
}
