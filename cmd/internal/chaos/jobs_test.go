package chaos

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// task is what every task of every job runs: it says, five times a second and
// without starting a process, that it lives. A line that is there was written
// by a living task, whatever became of it.
const task = `#!/bin/bash
exec 9<> <(:)
file=beat/$SLURM_JOB_ID.$ATTEMPT.$SLURMD_NODENAME.$SLURM_PROCID.log
beat() { echo "$EPOCHREALTIME $1" >> "$file"; read -rt 0.2 -u 9; }
[ "$SIGNAL" ] && trap 'beat usr1; exit 75' USR1
[ "$STUBBORN" ] && trap 'beat term' TERM
end=$((SECONDS + WORK))
beat begin
while ((SECONDS < end)); do beat; done
beat end
exit 0
`

// lostAliases begins every script. A slurmctld that is killed while a job's
// nodes come up forgets to tell the job their addresses, or to tell its sruns:
// where their names resolve nowhere, as with network namespaces, srun then fails
// in it, after a minute (seen with 22.05). The job says so and is requeued.
const lostAliases = `unresolved() {
  echo "$EPOCHREALTIME aliases: $SLURM_NODE_ALIASES" >> unresolved.$SLURM_JOB_ID.log
  scontrol requeue $SLURM_JOB_ID && sleep 60
  exit 1
}
echo "nodes $SLURM_JOB_NODELIST, aliases $SLURM_NODE_ALIASES"
getent hosts $SLURMD_NODENAME > /dev/null || [[ $SLURM_NODE_ALIASES = *:* ]] || unresolved
`

// script is a job that tries again what failed, so that it fails only if
// neither Slurm nor Burst runs it anew.
func (j job) script(work time.Duration) string {
	directive := ""
	if j.Signal {
		directive = "#BURST signal=USR1 grace=5s\n"
	}
	return "#!/bin/bash\n" + directive + fmt.Sprintf(lostAliases+`export ATTEMPT=$EPOCHREALTIME WORK=%d SIGNAL=%s STUBBORN=%s
exec 9<> <(:)
for try in 1 2 3 4 5 6; do
  echo "$EPOCHREALTIME try $try" >> beat/$SLURM_JOB_ID.$ATTEMPT.$SLURMD_NODENAME.batch.log
  srun --overlap bash ./task 2> srun.$SLURM_JOB_ID.err && exit 0
  code=$?
  cat srun.$SLURM_JOB_ID.err
  grep -q "Can't find an address" srun.$SLURM_JOB_ID.err && unresolved
  [ "$SIGNAL" ] && [ $code = 75 ] && exit 75
  for i in {1..50}; do
    echo "$EPOCHREALTIME" >> beat/$SLURM_JOB_ID.$ATTEMPT.$SLURMD_NODENAME.batch.log
    read -rt 0.4 -u 9
  done
done
exit $code
`, int(work.Seconds())+1, flag(j.Signal), flag(j.Stubborn))
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return ""
}

func (j job) args() []string {
	args := []string{"--partition=" + j.Partition, "--open-mode=append", fmt.Sprintf("-N%d", j.Nodes), fmt.Sprintf("-n%d", j.Nodes)}
	if j.NoRequeue {
		args = append(args, "--no-requeue")
	} else {
		args = append(args, "--requeue")
	}
	if j.Tasks > 0 {
		args = append(args, fmt.Sprintf("--array=1-%d", j.Tasks))
	}
	if j.Wide {
		args = append(args, "--exclusive")
	}
	return args
}

// submitted is a job that Slurm has accepted.
type submitted struct {
	job
	id        uint32
	cancelled bool
}

// submit hands a job in. Slurm writes its jobs to disk every 5 s only: what it
// forgets when it is killed is not ours to keep, so kills wait (settle).
func (w *world) submit(ctx context.Context, e event) bool {
	w.slurm.RLock()
	defer w.slurm.RUnlock()
	id, err := w.Submit(ctx, e.job.script(e.last), e.job.args()...)
	if err != nil {
		w.say("not submitted: %v", err)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, &submitted{job: e.job, id: id})
	w.newest = time.Now()
	w.tell("job %d: %+v, %s of work", id, e.job, e.last)
	return true
}

func (w *world) cancel(ctx context.Context, e event) bool {
	w.slurm.RLock()
	defer w.slurm.RUnlock()
	w.mu.Lock()
	if len(w.jobs) == 0 {
		w.mu.Unlock()
		return false
	}
	// One of the last, which has not ended yet.
	j := w.jobs[max(0, len(w.jobs)-1-e.pick%4)]
	j.cancelled = true
	w.mu.Unlock()
	out, err := w.Cluster.Command(ctx, "scancel", fmt.Sprint(j.id)).CombinedOutput()
	if err != nil {
		w.say("cancelling job %d: %v: %s", j.id, err, out)
		return false
	}
	w.say("job %d is cancelled", j.id)
	return true
}

// attempt is one run of a job: what it wrote.
type attempt struct {
	begin float64  // seconds since 1970, of its batch script
	last  float64  // of its last sign of life
	where []string // its files
}

// attempts reads the signs of life of all jobs, each job's in order of time.
func attempts(dir string) (map[uint32][]*attempt, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	all := map[uint32][]*attempt{}
	for _, path := range files {
		part := strings.SplitN(filepath.Base(path), ".", 4) // job, seconds, microseconds
		if len(part) < 4 {
			return nil, fmt.Errorf("%s is no job's file", path)
		}
		id, err := strconv.ParseUint(part[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		begin, err := strconv.ParseFloat(part[1]+"."+part[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		last, err := lastBeat(path)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all[uint32(id)], func(a *attempt) bool { return a.begin == begin })
		if i < 0 {
			i = len(all[uint32(id)])
			all[uint32(id)] = append(all[uint32(id)], &attempt{begin: begin})
		}
		a := all[uint32(id)][i]
		a.last, a.where = max(a.last, last), append(a.where, path)
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b *attempt) int {
			if a.begin < b.begin {
				return -1
			}
			return 1
		})
	}
	return all, nil
}

func lastBeat(path string) (float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	last := 0.0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		word, _, _ := strings.Cut(sc.Text(), " ")
		if t, err := strconv.ParseFloat(word, 64); err == nil {
			last = max(last, t)
		}
	}
	return last, nil
}
