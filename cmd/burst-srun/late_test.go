package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// late is a step of two ranks, as of MPI: the first waits for the second, which catches
// the signal some seconds after it has begun.
const late = `#!/bin/bash
if [ "$SLURM_PROCID" = 1 ]; then # a shell's child would die of the signal in its place
  exec perl -e 'sleep 6; $SIG{USR1} = sub {}; open F, ">ready"; close F; select undef, undef, undef, 0.1 until -e "ck"; sleep 3'
fi
rm -f ck
trap 'echo 1 >ck.new; mv ck.new ck' USR1
until [ -e ready ]; do sleep 0.1; done
until [ -e ck ]; do sleep 0.1; done
sleep 3; exit 0
`

// late: a rank that does not catch the signal yet is not killed by the first checkpoint
// where it is seen, and where it is not the step is started again.
func (s site) late(t *testing.T) {
	program := filepath.Join(s.dir, "late")
	if err := os.WriteFile(program, []byte(late), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ interval, begin, want, not string }{
		"seen":     {"2s", program, ", 0 restarts", "was lost"},
		"not seen": {"4s", "env -u BURST_STEP " + program, "killed o2: task 1; catch it", ", 0 checkpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, dir := s.submit(t, `#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=2
#BURST ckpt=signal signal=USR1 files=ck strategy=periodic interval=`+c.interval+` dir=ckpt
srun `+c.begin+`
`)
			code := s.ended(t, id)
			errs := read(t, dir, "err")
			t.Logf("%s", errs)
			if code != 0 || !strings.Contains(errs, c.want) || strings.Contains(errs, c.not) {
				t.Errorf("exit code %d, want %q and not %q", code, c.want, c.not)
			}
		})
	}
}
