package spool

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/google/go-cmp/cmp"
)

// When the test binary runs with these set it puts stepOrder into the folder
// and kills itself at the step.
const (
	killDir  = "BURST_TEST_SPOOL_DIR"
	killStep = "BURST_TEST_SPOOL_STEP"
)

var stepOrder = api.Order{ID: strings.Repeat("5", 32), Kind: api.Resume, Nodes: "c[1-4]", Made: time.Unix(1700000000, 0).UTC()}

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		text, err := json.Marshal(stepOrder)
		if err == nil {
			err = put(dir, name(stepOrder), text, func(step string) {
				if step == os.Getenv(killStep) {
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			})
		}
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func mustPut(t *testing.T, dir string, o api.Order) {
	t.Helper()
	if err := Put(dir, o); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, dir string) []Entry {
	t.Helper()
	l, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOldestFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	if len(list(t, dir)) != 0 {
		t.Error("a spool that does not exist is not empty")
	}
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 7200))
	var want []api.Order
	for i, d := range []time.Duration{0, 1, time.Millisecond, time.Second, 24 * time.Hour} {
		o := api.NewOrder(api.Resume, "c[1-2]", `{"x":"ü"}`)
		o.ID = strings.Repeat(string(rune('9'-i)), 32) // ids sort the other way
		o.Made = made.Add(d).UTC()
		want = append(want, o)
	}
	for _, i := range []int{3, 0, 4, 2, 1, 1} { // the second one twice
		mustPut(t, dir, want[i])
	}
	var got []api.Order
	for _, e := range list(t, dir) {
		got = append(got, e.Order)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("orders (-want +got):\n%s", d)
	}
	if n, err := Count(dir); n != len(want) || err != nil {
		t.Errorf("Count = %d, %v", n, err)
	}
	for _, e := range list(t, dir) {
		for range 2 { // the second time it is gone already
			if err := e.Remove(); err != nil {
				t.Error(err)
			}
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("left in the spool: %v, %v", files, err)
	}
}

func TestPutRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, dir, nodes, want string }{
		{"invalid order", t.TempDir(), "", "names no nodes"},
		{"folder is a file", file, "c1", "not a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := api.NewOrder(api.Resume, test.nodes, "")
			err := Put(test.dir, o)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), o.ID) {
				t.Errorf("Put: %v, want the order's id and %q", err, test.want)
			}
		})
	}
}

// A process that may write only so many bytes per file stands for a full disk:
// the write fails half way.
func TestPutOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", `trap "" XFSZ; ulimit -f 0; exec "$0"`, os.Args[0])
	cmd.Env = []string{killDir + "=" + dir}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "file too large") {
		t.Errorf("Put on a full disk: %v\n%s", err, out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestKilledAtEveryStepOfPut(t *testing.T) {
	var steps []string
	text, err := json.Marshal(stepOrder)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t.TempDir(), name(stepOrder), text, func(s string) { steps = append(steps, s) }); err != nil {
		t.Fatal(err)
	}
	if len(steps) < 4 {
		t.Fatalf("steps: %q", steps)
	}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = []string{killDir + "=" + dir, killStep + "=" + step}
			if out, err := cmd.CombinedOutput(); err == nil || err.Error() != "signal: killed" {
				t.Fatalf("child: %v\n%s", err, out)
			}
			// All or nothing, and nothing in the way of the next.
			got := list(t, dir)
			if whole := step == "renamed"; whole != (len(got) == 1) {
				t.Fatalf("killed when %s: %d orders", step, len(got))
			}
			for _, e := range got {
				if d := cmp.Diff(stepOrder, e.Order); d != "" {
					t.Error(d)
				}
			}
			if err := Sweep(dir); err != nil {
				t.Errorf("Sweep: %v", err)
			}
			mustPut(t, dir, stepOrder)
			if got := list(t, dir); len(got) != 1 || !cmp.Equal(got[0].Order, stepOrder) {
				t.Errorf("after Put again: %v", got)
			}
			age(t, dir)
			if err := Sweep(dir); err != nil {
				t.Errorf("Sweep: %v", err)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
				t.Errorf("old temporary files were left: %v, %v", files, err)
			}
		})
	}
}

// age makes every file of dir two hours old.
func age(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-2 * time.Hour)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Chtimes(filepath.Join(dir, f.Name()), old, old); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBrokenFilesAreSetAside(t *testing.T) {
	dir := t.TempDir()
	mustPut(t, dir, stepOrder)
	good := filepath.Base(list(t, dir)[0].Path)
	for name, make := range map[string]func(path string) error{
		"0-empty.order":  func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"0-cut.order":    func(p string) error { return os.WriteFile(p, []byte(`{"id":"5`), 0o600) },
		"0-other.order":  func(p string) error { return os.WriteFile(p, []byte(`{"nodes":"c1"}`), 0o600) },
		"0-folder.order": func(p string) error { return os.Mkdir(p, 0o700) },
		"0-pipe.order":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"0-link.order":   func(p string) error { return os.Symlink(filepath.Join(dir, good), p) },
		"0-huge.order": func(p string) error {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(p, maxFile+1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if got := list(t, dir); len(got) != 1 || !cmp.Equal(got[0].Order, stepOrder) {
				t.Errorf("with it in the way: %v", got)
			}
			if err := Sweep(dir); err == nil || !strings.Contains(err.Error(), path+" set aside as "+name+".bad") {
				t.Errorf("Sweep: %v", err)
			}
			if _, err := os.Lstat(path + ".bad"); err != nil {
				t.Errorf("it is lost: %v", err)
			}
			if err := Sweep(dir); err != nil {
				t.Errorf("the second Sweep tells again: %v", err)
			}
		})
	}
	if got := list(t, dir); len(got) != 1 || filepath.Base(got[0].Path) != good {
		t.Errorf("the good one: %v", got)
	}
}
