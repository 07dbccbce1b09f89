package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func TestParseCPU(t *testing.T) {
	for _, tt := range []struct {
		name, stat string
		want       time.Duration
		fails      bool
	}{
		{"a daemon", "7 (burstd) S 1 7 7 0 -1 4194560 1 0 0 0 123 45 0 0 20 0 9 0 100 1 1", 1680 * time.Millisecond, false},
		{"a name with blanks and brackets", "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 9 0 100 1 1", 30 * time.Millisecond, false},
		{"cut off", "7 (burstd) S 1 7", 0, true},
		{"no numbers", "7 (burstd) S 1 7 7 0 -1 4194560 1 0 0 0 x y 0 0", 0, true},
		{"empty", "", 0, true},
	} {
		if got, err := parseCPU(tt.stat); (err != nil) != tt.fails || !tt.fails && got != tt.want {
			t.Errorf("%s: %s, want %s: %v", tt.name, got, tt.want, err)
		}
	}
}

func TestMemoryOfThisProcess(t *testing.T) {
	now, peak, err := memoryOf(os.Getpid())
	if err != nil || now < 1 || peak < now/2 {
		t.Errorf("%.1f MB, peak %.1f: %v", now, peak, err)
	}
}

// TestShim: a command has the output, errors and exit code of the simulated one.
func TestShim(t *testing.T) {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(t.Context())
	ctl := slurmtest.New(slurmtest.Options{Nodes: []string{"c1", "c2"}})
	wait, err := serveShims(ctx, socket, ctl)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"scontrol", "-o", "show", "nodes"}, 0},
		{[]string{"scontrol", "-o", "show", "nodes", "c3"}, 1},
	} {
		var out, errOut bytes.Buffer
		code, err := Shim(socket, tt.args, &out, &errOut)
		direct, _, _ := ctl.Run(ctx, tt.args[0], tt.args[1:]...)
		if err != nil || code != tt.code || out.String() != string(direct) {
			t.Errorf("%v: exit code %d, %v\n%s%s", tt.args, code, err, &out, &errOut)
		}
	}
	cancel()
	wait()
	if _, err := Shim(socket, []string{"scontrol", "ping"}, new(bytes.Buffer), new(bytes.Buffer)); err == nil {
		t.Error("nobody listens, and that is no error")
	}
}

// TestCheckBig: figures of a site that has fallen apart are no figures.
func TestCheckBig(t *testing.T) {
	good := api.Status{SlurmOK: true, Nodes: map[string]int{"up": bigUp}, Instances: bigUp}
	if err := checkBig(good, bigUp); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]api.Status{
		"nodes":     {SlurmOK: true, Nodes: map[string]int{"up": 1}, Instances: bigUp},
		"instances": {SlurmOK: true, Nodes: good.Nodes},
		"slurm":     {Nodes: good.Nodes, Instances: bigUp},
	} {
		if checkBig(s, bigUp) == nil {
			t.Errorf("%s: taken for the site that was to be measured", name)
		}
	}
	if checkBig(good, 0) == nil {
		t.Error(fmt.Sprint("no instance lives, and ", bigUp, " are believed"))
	}
}
