package power

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// apartText begins what jobs of several nodes are told that run in several clouds or zones.
const apartText = "burst: its nodes are not of one place, as some were up when Slurm gave it them: "

// apart is what jobs are told that run on nodes of several providers, or zones. What is launched for a job is of one; but
// Slurm knows nothing of places, and gives a job whatever is idle. When the job waits again it is taken back.
func (e *Engine) apart(snap *slurm.Snapshot) map[uint32]string {
	at, all := map[string]string{}, map[string]bool{} // by node
	for _, n := range e.mem.inPhase(Up) {
		if i, ok := e.mem.instances[n.Instance]; ok && !e.serves(n.Name) {
			at[n.Name] = strings.TrimSuffix(i.Provider+"/"+i.Offering.Zone, "/")
			all[at[n.Name]] = true
		}
	}
	texts := map[uint32]string{}
	for id, j := range snap.Jobs {
		moved := strings.HasPrefix(j.AdminComment, MovedText)
		switch told := strings.HasPrefix(j.AdminComment, apartText) || moved && strings.Contains(j.AdminComment, behind(apartText)); {
		case told && (j.State == "PENDING" || j.State == "CONFIGURING") && moved:
			texts[id] = movedWords(j.AdminComment)
		case told && (j.State == "PENDING" || j.State == "CONFIGURING"):
			texts[id] = ""
		case told, len(all) < 2, j.State != "RUNNING", j.NumNodes < 2, !waited(j.AdminComment):
		default:
			if text := scattered(j, at); text != "" {
				texts[id] = AfterMove(j.AdminComment, apartText+text)
			}
		}
	}
	return texts
}

// scattered lists the job's nodes by where they are; "": they are in one place, as far as is known.
func scattered(j slurm.Job, at map[string]string) string {
	names, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return ""
	}
	by := map[string][]string{}
	for _, name := range names {
		if place, known := at[name]; known {
			by[place] = append(by[place], name)
		}
	}
	if len(by) < 2 {
		return ""
	}
	var parts []string
	for _, place := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s in %s", hostlist.Fold(by[place]), place))
	}
	return strings.Join(parts, ", ")
}

// waited says that a comment is none, or one of the time when the job had no nodes: what is told of one that runs stays.
func waited(comment string) bool {
	_, quiet := ToldQuiet(comment)
	return comment == "" || quiet || Held(comment) || TakenBack(comment) ||
		slices.ContainsFunc([]string{MovedText, BootText, KeptText, AwayText}, func(begin string) bool { return strings.HasPrefix(comment, begin) })
}
