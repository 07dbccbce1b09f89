package e2e

import (
	"strings"
	"time"
)

// joining is a job that takes in a node, and starts a step on it.
const joining = `#!/bin/sh
#SBATCH --nodes=1 --exclusive
said=$(salloc --no-shell --nodes=1 --exclude="$SLURM_JOB_NODELIST" --dependency=expand:$SLURM_JOB_ID 2>&1)
other=$(echo "$said" | sed -n 's/.*Granted job allocation \([0-9]*\).*/\1/p')
node=$(squeue -h -j "$other" -o %N)
scontrol update JobId=$other NumNodes=0
scontrol update JobId=$SLURM_JOB_ID NumNodes=ALL
echo "the job has $(squeue -h -j $SLURM_JOB_ID -o %D) nodes"
timeout 30 srun --overlap --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" --mpi=none echo "a step on the first node" 2>&1
timeout 30 srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" --mpi=none echo "a step on the node that has joined" 2>&1
echo "srun ends with $?"
`

// joins says whether steps run on nodes of a cloud that a running job takes in. From Slurm 23.11 on they do not, by
// a fault of slurmctld's (docs/slurm-states.md): that is shown of the Slurm that is here. Of an older one the caller shows that they do.
func (s *site) joins() bool {
	s.t.Helper()
	if !s.fromSlurm(23, 11) {
		return true
	}
	version, err := s.Slurm().Version(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	id := s.submit(joining)
	s.wait(90*time.Second, "a job has tried a step on a node that has joined", func() bool { return strings.Contains(s.output(id), "srun ends with ") })
	out := s.output(id)
	if !strings.Contains(out, "the job has 2 nodes\n") || !strings.Contains(out, "a step on the first node\n") {
		s.t.Fatalf("no node has joined:\n%s", out)
	}
	if strings.Contains(out, "a step on the node that has joined\n") {
		s.t.Fatalf("%s starts steps on nodes that join a job, and ulfm-run and burst check say that it does not:\n%s", version, out)
	}
	_, said, _ := strings.Cut(out, "a step on the first node\n")
	s.t.Logf("NOT TESTED: nodes that join heat-ulfm's job, as no step runs there with %s: %s", version, strings.ReplaceAll(strings.TrimSpace(said), "\n", "; "))
	return false
}

// asksForNone: the job went on with the nodes that it had, and its user was told why.
func (s *site) asksForNone(id uint32) {
	s.t.Helper()
	if told := strings.Count(s.output(id), "ulfm-run: no node is asked for: from Slurm 23.11 on"); told != s.job(id).Restarts+1 {
		s.t.Errorf("it is said %d times that no node is asked for", told)
	}
	if out, err := s.Cluster.Command(s.t.Context(), "squeue", "--noheader", "--states=all", "--name=ulfm-grow-"+id10(id)).CombinedOutput(); err != nil || len(out) > 0 {
		s.t.Errorf("jobs for nodes that are of no use: %v\n%s", err, out)
	}
}
