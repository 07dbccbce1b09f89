package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	side "github.com/burst-hpc/burst/packaging/quick"
)

// sitesAtOnce is how many sites live at the same time. Daemons mostly wait, but with
// more of them two processors would be what the tests' bounds are about, and no longer
// Burst. Tests that are not parallel, since they compare times or count on seconds,
// have the machine for themselves.
const sitesAtOnce = 3

// TestKill9AtEveryPoint has a hundred laps, in which everybody waits for slurmctld's whole
// seconds: one needs 2 s of a processor in 15, and its bounds are minutes. So lapsBeside of
// its lapSites live beside the others.
const lapSites, lapsBeside = 5, 3

var (
	places = make(chan struct{}, sitesAtOnce)
	beside = make(chan struct{}, lapsBeside)
	sites  atomic.Int32 // that were begun
)

// programs is the folder of what this process has built, for all tests.
var programs string

func TestMain(m *testing.M) {
	local.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "burst-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	return side.Run(m)
}

// place waits until another site may live, until the test's end.
func place(t *testing.T) {
	t.Helper()
	var extra chan struct{}
	if strings.HasPrefix(t.Name(), "TestKill9AtEveryPoint/") {
		extra = beside
	}
	var in chan struct{}
	select {
	case extra <- struct{}{}:
		in = extra
	default:
		select {
		case extra <- struct{}{}:
			in = extra
		case places <- struct{}{}:
			in = places
		}
	}
	t.Cleanup(func() { <-in })
}

// build returns the folder of our programs, built with Go's build tags.
func build(t *testing.T, tags ...string) string {
	t.Helper()
	bin := filepath.Join(programs, strings.Join(append([]string{"bin"}, tags...), "-"))
	if err := rig.Build(t.Context(), bin, tags...); err != nil {
		t.Fatal(err)
	}
	return bin
}

var made struct {
	sync.Mutex
	by map[string]string // program -> settings
}

// buildAt builds contrib/heat with settings of its Makefile, once for each program.
func buildAt(t *testing.T, program string, settings ...string) {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	by := strings.Join(settings, " ")
	if was, ok := made.by[program]; ok {
		if was != by {
			t.Fatalf("%s was built with %q, not with %q", program, was, by)
		}
		return
	}
	args := append([]string{"-s", "-C", "../../../contrib/heat", "OUT=" + program}, settings...)
	if out, err := exec.CommandContext(t.Context(), "make", args...).CombinedOutput(); err != nil {
		t.Fatalf("building heat (make deps installs an MPI and gcc): %v\n%s", err, out)
	}
	if made.by == nil {
		made.by = map[string]string{}
	}
	made.by[program] = by
}

// ownJobs has a site count its jobs from a number of its own: what Open MPI and
// burst-srun keep on a node is named after the job, and all sites' nodes are this host.
func ownJobs() string {
	const ofProcess, ofSite = 4000, 100
	first := (1+os.Getpid()%16000)*ofProcess + int(sites.Add(1))*ofSite // Slurm's ids go to 67 million
	return fmt.Sprintf("FirstJobId=%d\n", first)
}
