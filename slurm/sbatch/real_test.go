package sbatch

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// TestAsSbatch holds the words that are read to those that the sbatch of this
// host finds. "\ " is not among them: versions differ.
func TestAsSbatch(t *testing.T) {
	sbatch, err := exec.LookPath("sbatch")
	if err != nil {
		t.Skip("no sbatch on the PATH")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nNodeName=localhost\nPartitionName=a Nodes=localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`--comment="burst: signal=USR1 grace='5s'" # text`,
		`-J 'a "b"' -N2#3`,
		`-J a\#b\"c "x\"y" 'it\'s'`,
		`--time "" --hold`,
		`a"b c"d'e'f`,
		"\t -N1\t-n 2  ",
		`-J x\\y`,
		`-N1:2`,
		`#`,
	} {
		t.Run(line, func(t *testing.T) {
			script := filepath.Join(dir, "job.sh")
			// The last word is no option: sbatch stops there, and asks nobody.
			text := "#!/bin/sh\n#SBATCH " + line + "\n#SBATCH --requeue stop\ntrue\n"
			if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, sbatch, "-vvv", "--test-only", script)
			cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
			out, err := cmd.CombinedOutput()
			var want []string
			for _, m := range regexp.MustCompile(`(?m)Found in script, argument "(.*)"$`).FindAllStringSubmatch(string(out), -1) {
				want = append(want, m[1])
			}
			if len(want) == 0 {
				t.Fatalf("sbatch says nothing of words: %v\n%s", err, out)
			}
			got, err := split(" " + line)
			if err != nil || !slices.Equal(append(got, "--requeue", "stop"), want) {
				t.Errorf("got %q, %v\nsbatch has %q", got, err, want)
			}
		})
	}
}
