package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// What a job waits for stands in its AdminComment, too, where Burst has done something for it: a rule has moved
// it (said with the move itself, by the same command), its nodes are ordered (below), or they did not come and it was
// given back (slurm/power); or where its rule would move it, and something keeps it that may last (overflow_tell.go). Each is
// said once, with the time since when, and not again as time goes by. To what else it leaves alone burstd says
// nothing: that would be a command for each job of a long queue.
const (
	tellEvery  = 5 * time.Second
	tellAfter  = 10 * time.Second // of a boot: of shorter ones nobody asks
	tellAtOnce = 8                // jobs in one look, each some commands of Slurm's
)

// tellable says that a comment may be written over by one that says what the job waits for now: there is none, or
// it is such a one. Other words of burstd's say more.
func tellable(comment string) bool {
	if _, quiet := power.ToldQuiet(comment); quiet {
		return false
	}
	return comment == "" || strings.HasPrefix(comment, power.MovedText) || strings.HasPrefix(comment, power.BootText) || strings.HasPrefix(comment, power.KeptText)
}

// addedText is what a job is told that a rule moves, or that is kept from the cloud for a budget; had is its comment. Empty: nothing.
func addedText(dec overflow.Decision, had string, now time.Time) string {
	if dec.Rule == "" { // it has another place than it asked for, whatever was said before
		return backText(dec)
	}
	if !tellable(had) && !power.Held(had) && !power.TakenBack(had) {
		return "" // others' words, or what says more
	}
	return fmt.Sprintf("%s%s: goes also to %s, since %s", power.MovedText, dec.Rule, strings.Join(dec.To, ","), now.Local().Format(time.DateTime))
}

// requeuedText ends what a job is told that is given back.
const requeuedText = "; it was requeued, and its age counts from then"

// takenText is what a job is told whose move is taken back: always, if it was given back for want of nodes. Slurm has requeued
// such a one, and its priority by age begins anew.
func takenText(dec overflow.Decision, had string) string {
	if dec.Rule == "" && !strings.HasPrefix(had, power.AwayText) {
		return ""
	}
	if dec.Rule == "" {
		return "burst: " + dec.Why
	}
	if !dec.Begin && !strings.HasPrefix(had, power.MovedText) {
		return ""
	}
	return backText(dec)
}

func backText(dec overflow.Decision) string {
	text := "burst: " + dec.Why
	if dec.Begin {
		text += requeuedText
	}
	return text
}

// bootText is what a job is told whose nodes boot; had is its comment, which it follows.
func bootText(had string, nodes []power.Node) string {
	text := fmt.Sprintf("%s%d of pool %s at %s; it starts when they have booted", power.BootText, len(nodes), nodes[0].Pool, nodes[0].Made.Local().Format(time.DateTime))
	return power.AfterMove(had, text)
}

// ordered is an order of nodes for a job.
type ordered struct {
	job   uint32
	order string
}

// keepTelling tells jobs that their nodes boot, until ctx ends.
func (d *Daemon) keepTelling(ctx context.Context) error {
	told := map[ordered]bool{}
	for {
		d.tellBoots(ctx, told, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter(tellEvery)):
		}
	}
}

// tellBoots tells some of those whose nodes have been ordered for a while, each once for an order. What cannot be
// written is not: it is a courtesy.
func (d *Daemon) tellBoots(ctx context.Context, told map[ordered]bool, now time.Time) {
	boots := map[ordered][]power.Node{}
	for _, n := range d.engine.Coming() {
		if n.Job != 0 && !n.Made.IsZero() && now.Sub(n.Made) >= tellAfter {
			key := ordered{n.Job, n.Order}
			boots[key] = append(boots[key], n)
		}
	}
	maps.DeleteFunc(told, func(k ordered, _ bool) bool { return boots[k] == nil })
	maps.DeleteFunc(boots, func(k ordered, _ []power.Node) bool { return told[k] })
	snap := d.watcher.Latest()
	if len(boots) == 0 || snap == nil {
		return
	}
	waits := slices.SortedFunc(maps.Keys(boots), func(a, b ordered) int { return boots[a][0].Made.Compare(boots[b][0].Made) })
	asked := 0
	for _, k := range waits {
		j, known := snap.Jobs[k.job]
		if !known || j.State != "CONFIGURING" || snap.Taken.Before(boots[k][0].Made) {
			continue // not as Slurm shows it: at another look
		}
		if told[k] = true; !tellable(j.AdminComment) {
			continue
		}
		if asked++; asked > tellAtOnce {
			delete(told, k)
			return
		}
		if err := d.tellBoot(ctx, j, boots[k]); err != nil && ctx.Err() == nil {
			d.log.Debug("a job could not be told that its nodes boot", "job", j.ID, "error", err)
		}
	}
}

// tellBoot reads the job again first: what others have said meanwhile stays.
func (d *Daemon) tellBoot(ctx context.Context, j slurm.Job, nodes []power.Node) error {
	ctx, cancel := context.WithTimeout(ctx, afterAnswer)
	defer cancel()
	now, err := d.client.Job(ctx, j.ID)
	if err != nil {
		return err
	}
	text := bootText(now.AdminComment, nodes)
	if now.State != "CONFIGURING" || now.Restarts != j.Restarts || now.AdminComment == text || !tellable(now.AdminComment) {
		return nil
	}
	return d.client.UpdateJob(ctx, j.ID, slurm.JobUpdate{AdminComment: &text})
}
