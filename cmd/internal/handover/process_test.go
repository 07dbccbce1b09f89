package handover

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// When the test binary runs with this set it is burst-resume.
const childEnv = "BURST_TEST_HANDOVER"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		Main(api.Resume)
	}
	os.Exit(m.Run())
}

// The program must do with what slurmctld gives it, which may be nothing.
func TestAsSlurmctldRunsIt(t *testing.T) {
	for _, test := range []struct {
		name, script string // sh runs the script, with the program as $0
		code         int
		orders       int
		out          string
	}{
		{"bare environment", `exec "$0" c1`, 0, 1, ""},
		{"all streams closed", `exec "$0" c1 <&- >&- 2>&-`, 0, 1, ""},
		{"stderr is a broken pipe", `export SLURM_RESUME_FILE=/none; { "$0" c1 2>&1; echo $? >&3; } 3>&2 | true`, 0, 1, "0\n"},
		{"resume file gone", `SLURM_RESUME_FILE=/none exec "$0" c1`, 0, 1, "burst-resume: warning: SLURM_RESUME_FILE: open /none"},
		{"no argument", `exec "$0"`, 2, 0, "0 arguments instead of one"},
		{"two arguments", `exec "$0" c1 c2`, 2, 0, "2 arguments instead of one"},
		{"empty list", `exec "$0" ""`, 2, 0, "names no nodes"},
		{"no such option", `exec "$0" --bogus`, 2, 0, "there is no option \"--bogus\""},
		{"help", `exec "$0" --help`, 0, 0, "as its ResumeProgram"},
		{"version", `exec "$0" --version`, 0, 0, "burst-resume dev"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, b := newSite(t), new(apitest.Backend)
			serve(t, b, s.socket)
			cmd := exec.Command("/bin/sh", "-c", test.script, os.Args[0])
			cmd.Env = []string{childEnv + "=1", "BURST_CONFIG=" + s.config}
			cmd.Dir = "/"
			out, err := cmd.CombinedOutput()
			code := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != test.code || !strings.Contains(string(out), test.out) {
				t.Errorf("exit %d, printed %q; want %d, %q", code, out, test.code, test.out)
			}
			if n := len(b.Orders()); n != test.orders {
				t.Errorf("%d orders, want %d", n, test.orders)
			}
		})
	}
}
