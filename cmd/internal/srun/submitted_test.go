package srun

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/directive"
)

// submitted is what job_submit.lua writes into comments with the defaults that the site's
// file has as an example.
const submitted = "burst-site: ckpt=dmtcp strategy=both interval=30m"

// TestTheSitesPartIsNoUsersWord: no step ends with a wrong usage for what the site has put
// into its job's comment.
func TestTheSitesPartIsNoUsersWord(t *testing.T) {
	for _, c := range []struct{ comment, want string }{
		{submitted, "srun -n4 mpirun ./sim"},
		{submitted + " burst: retries=2", "srun -n4 mpirun ./sim"},
		{"burst: ckpt=dmtcp", ""},
	} {
		a := newRequeued(t)
		a.script = "#!/bin/sh\n"
		a.first()
		ctld := a.slurm()
		ctld.job.Restarts, ctld.job.Comment = 0, c.comment
		a.ctld = ctld
		code := a.run("-n4", "mpirun", "./sim")
		if got := strings.Join(a.line, " "); got != c.want || (code == cli.Usage) != (c.want == "") {
			t.Errorf("%s: exit code %d, %q, want %q: %s", c.comment, code, got, c.want, a.said.String())
		}
	}
}

// TestTheSitesPartAndContainers: the site's method does not stand in the way of the
// user's image.
func TestTheSitesPartAndContainers(t *testing.T) {
	for comment, refuses := range map[string]bool{submitted: false, "burst: ckpt=dmtcp": true} {
		said := directive.Said{Script: "#BURST container=x.sif\n", Comment: comment}
		own, err := said.Own()
		if err != nil {
			t.Fatal(err)
		}
		merged, err := said.Merge()
		if err != nil || merged.Method != directive.DMTCP || merged.Container != "x.sif" {
			t.Fatalf("%+v, %v", merged, err)
		}
		k := known{own: own}
		k.merged = merged
		unusable, refused := k.judgeContained()
		if (refused != nil) != refuses || (unusable != nil) == refuses {
			t.Errorf("%s: unusable %v, refused %v", comment, unusable, refused)
		}
	}
}

// TestTheSitesPartIsKnownWithoutBurstd: a later attempt is not begun anew in silence where
// a burstd may know its checkpoints.
func TestTheSitesPartIsKnownWithoutBurstd(t *testing.T) {
	for _, c := range []struct {
		comment, program string
		code             int
		says             string
	}{
		{"burst-site: ckpt=signal signal=USR1", "burst-resume", cli.Failed, "does not know where burstd is"},
		{"burst-site: ckpt=signal signal=USR1", "", 0, "nothing of an earlier one"},
	} {
		a := newRequeued(t)
		a.script = "#!/bin/sh\n"
		synctest.Test(t, func(t *testing.T) {
			a.T = t
			ctld := a.slurm()
			ctld.job.Comment, ctld.config = c.comment, map[string]string{"ResumeProgram": c.program}
			a.ctld = ctld
			if code := a.run(); code != c.code || !strings.Contains(a.said.String(), c.says) {
				t.Errorf("%s: exit code %d, said %s", c.comment, code, a.said.String())
			}
		})
	}
}
