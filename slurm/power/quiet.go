package power

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// quiet notes that the jobs of a group wait since no source that may launch their nodes answers.
func (p planning) quiet(out *planned, g group, why []string) {
	if len(why) > 0 {
		out.tell(g, quietText+strings.Join(why, "; "))
	}
}

// tell notes why the jobs of a group wait.
func (out *planned) tell(g group, text string) {
	for _, n := range g.nodes {
		if n.Job != 0 {
			if out.told == nil {
				out.told = map[asking]string{}
			}
			out.told[asking{n.Job, n.Order}] = text
		}
	}
}

// quietEnds notes the jobs that wait since a cloud which does not answer cannot say that their
// nodes' former instances are gone.
func (p planning) quietEnds(out *planned) {
	away := false
	for _, sh := range p.shut {
		away = away || sh.why != ""
	}
	if !away {
		return
	}
	for _, instances := range p.mem.serving() {
		for _, i := range instances {
			n := p.mem.nodes[i.Assigned]
			if sh := p.shut[sourceKey(n.Pool, i.Provider)]; n.Phase == Wanted && sh.why != "" {
				p.quiet(out, group{pool: n.Pool, nodes: []Node{n}}, []string{fmt.Sprintf("%s, and whether %s, which was node %s, is gone is not known", sh.why, i.ID, n.Name)})
			}
		}
	}
}

// How begins what jobs are told that wait for an answer: a cloud's, or a budget's, which has none as long as a price is asked for.
const (
	quietText  = "burst: its nodes are launched when a cloud answers: "
	budgetText = "burst: its nodes are launched when the budget has an answer: "
)

// ToldQuiet is what a comment tells of such a wait, maybe behind the words of the job's move.
func ToldQuiet(comment string) (text string, told bool) {
	for _, begin := range []string{quietText, budgetText} {
		if text, told = strings.CutPrefix(comment, begin); !told && strings.HasPrefix(comment, MovedText) {
			_, text, told = strings.Cut(comment, behind(begin))
		}
		if told {
			return strings.TrimPrefix(begin, "burst: ") + text, true
		}
	}
	return "", false
}

// tellQuiet writes into jobs why they wait, once for each order of Slurm's, beside Run. A comment that
// is not ours stays; what cannot be written is no reason to wait, and is tried again.
func (e *Engine) tellQuiet(ctx context.Context, waits map[asking]string) {
	if e.market.telling {
		return // the next plan says it again
	}
	maps.DeleteFunc(e.market.told, func(a asking, _ string) bool { _, still := waits[a]; return !still && !e.wants(a) })
	if e.until(quietTold) > 0 {
		return
	}
	texts, asked := map[uint32]string{}, map[asking]string{}
	for a, text := range waits {
		if _, told := e.market.told[a]; told || len(texts) == maxTelling {
			continue
		}
		if j, known := e.market.jobs[a.job]; known && ours(j.AdminComment) {
			texts[a.job], asked[a] = oneLine(AfterMove(j.AdminComment, text)), text
			continue
		}
		e.market.told[a] = text
	}
	e.comment(ctx, texts, func(failed map[uint32]bool) {
		for a, text := range asked {
			if !failed[a.job] {
				e.market.told[a] = text
			}
		}
	})
}

// tookQuiet takes back what jobs were told that do not wait any more, and tells those that run in several places.
func (e *Engine) tookQuiet(ctx context.Context, snap *slurm.Snapshot) {
	if e.market.telling || e.until(quietTold) > 0 {
		return // the next round does it
	}
	waits := map[uint32]bool{}
	for _, n := range e.mem.inPhase(Wanted) {
		waits[n.Job] = true
	}
	for _, n := range e.mem.inPhase(Launching) {
		waits[n.Job] = waits[n.Job] || e.market.refuses(e.mem.launches[n.Token].Provider, time.Now())
	}
	texts := map[uint32]string{}
	for id, j := range snap.Jobs {
		if _, told := ToldQuiet(j.AdminComment); told && !waits[id] && !ended(j) && len(texts) < maxTelling {
			if texts[id] = ""; strings.HasPrefix(j.AdminComment, MovedText) {
				texts[id] = movedWords(j.AdminComment)
			}
		}
	}
	for id, text := range e.apart(snap) {
		if len(texts) < maxTelling {
			texts[id] = oneLine(text)
		}
	}
	e.comment(ctx, texts, func(map[uint32]bool) {})
}

// ended says that the job takes no comment any more.
func ended(j slurm.Job) bool {
	return !slices.Contains([]string{"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"}, j.State)
}

// quietTold names the wait after comments that could not be written.
const quietTold = "telling of clouds that do not answer"

// comment writes jobs' comments beside Run, and then says which of them could not be written.
func (e *Engine) comment(ctx context.Context, texts map[uint32]string, done func(failed map[uint32]bool)) {
	if len(texts) == 0 {
		return
	}
	e.market.telling = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		failed := map[uint32]bool{}
		for id, text := range texts {
			if err := e.slurm.UpdateJob(ctx, id, slurm.JobUpdate{AdminComment: &text}); err != nil {
				failed[id] = true
				e.log.Debug("what a job is told of a cloud that does not answer could not be written; it is tried again", "job", id, "text", text, "error", err)
			}
		}
		return func(context.Context) {
			if e.market.telling = false; len(failed) > 0 {
				e.failed(quietTold)
			} else {
				delete(e.backoff, quietTold)
			}
			done(failed)
		}
	})
}

// ours says that a job's comment for admins may be written over: there is none, or it is ours.
func ours(comment string) bool { return comment == "" || strings.HasPrefix(comment, "burst: ") }

// wants says that nodes of the order still wait for the job.
func (e *Engine) wants(a asking) bool {
	for _, n := range e.mem.nodes {
		if n.Phase == Wanted && n.Job == a.job && n.Order == a.order {
			return true
		}
	}
	return false
}
