package methods

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm/sandbox"
)

// The suite's cases where srun stands between the method and the program.
func TestSignalSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster: slow end-to-end, run by make test")
	}
	cluster, err := sandbox.Start(t.Context(), sandbox.Options{OnPrem: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	out, err := cluster.Command(t.Context(), "salloc", "--no-shell", "-p", "onprem", "-N2").CombinedOutput()
	granted := regexp.MustCompile(`Granted job allocation ([0-9]+)`).FindStringSubmatch(string(out))
	if err != nil || granted == nil {
		t.Fatalf("salloc: %v\n%s", err, out)
	}
	c := bySignal()
	c.program = []string{"srun", "--jobid=" + granted[1], "-n1", "--overlap", "--quiet", os.Args[0]}
	for _, kv := range cluster.Env() {
		key, value, _ := strings.Cut(kv, "=")
		t.Setenv(key, value)
	}
	for name, test := range map[string]func(*testing.T, candidate){
		"exit codes":                         testExitCodes,
		"stdin":                              testStdin,
		"folder and environment":             testWhere,
		"checkpoint and go on":               testGoOn,
		"checkpoint and stop, restart twice": testStop,
		"stop of one that ignores SIGTERM":   testDeafStop,
		"finishing":                          testFinishing,
		"killed during a checkpoint":         testKilled,
		"its own starter is killed":          testStarterKilled,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}
