package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// launcher: what is not protected starts an MPI launcher once, as what is, and the srun
// that the launcher starts its helpers by is Slurm's.
func (s site) launcher(t *testing.T) {
	mpiexec := filepath.Join(s.dir, "mpiexec")
	if err := os.WriteFile(mpiexec, []byte("#!/bin/sh\necho launched\nsrun -n2 echo rank\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	burstSrun := filepath.Join(filepath.Dir(s.shim), "burst-srun") + " "
	id, dir := s.submit(t, `#!/bin/bash
#SBATCH -n2
#BURST ckpt=mana strategy=periodic
BURST_SRUN_OFF=1 `+burstSrun+mpiexec+`
`+burstSrun+mpiexec+`
`+burstSrun+"--once x "+mpiexec+`
`+burstSrun+`--ckpt "signal signal=USR1" `+mpiexec+`
`+burstSrun+"-n2 "+mpiexec+`
echo "code $?"
`+burstSrun+"-o other "+mpiexec+`
echo "code $?"
`)
	code, out, errs := s.ended(t, id), read(t, dir, "out"), read(t, dir, "err")
	if want := strings.Repeat("launched\nrank\nrank\n", 4) + "code 2\ncode 2\n"; code != 0 || out != want {
		t.Errorf("exit code %d\n%s\nerrors:\n%s", code, out, errs)
	}
	if !strings.Contains(errs, "ckpt=mana: mana: ") || !strings.Contains(errs, "leave out the number of tasks before it") ||
		!strings.Contains(errs, "--output=other is for srun") {
		t.Errorf("errors:\n%s", errs)
	}
}
