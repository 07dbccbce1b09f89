package heat

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// writePlan puts a plan in the place of ulfm-run's.
func writePlan(t *testing.T, dir, text string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*", "plan"))
	if err != nil || len(found) != 1 {
		t.Fatalf("plans %v, %v", found, err)
	}
	if err := os.WriteFile(found[0]+".test", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(found[0]+".test", found[0]); err != nil {
		t.Fatal(err)
	}
}

// Ranks move over nodes that are names only, and lose nothing by it, also when a
// copy is due in the same iteration.
func (s survivor) testMoved(t *testing.T) {
	dir := t.TempDir()
	var places []string
	o := finish(t, s.command(t, dir, 6, "--pace", "15", "--trace", "--copy-every", "1"), func() {
		s.started(t, dir)
		for i, nodes := range []string{"a b c", "a c", "a c d"} {
			text := fmt.Sprintf("plan %d\nnode %s\n", 100+i, strings.ReplaceAll(nodes, " ", "\nnode "))
			writePlan(t, dir, text)
			until(t, "moved to "+nodes, func() bool {
				out, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*", "out"))
				if err != nil || len(out) != 1 {
					return false
				}
				text, err := os.ReadFile(out[0])
				return err == nil && strings.Count(string(text), ": moved ") == i+1
			})
		}
	})
	s.came(t, o, 0)
	for _, line := range strings.Split(o.stdout, "\n") {
		if _, at, ok := strings.Cut(line, " s, on "); ok {
			places = append(places, at)
		}
	}
	if got := strings.Join(places, "; "); got != "a b c a b c; a a c a c c; a a c d c d" {
		t.Errorf("the ranks were on %s", got)
	}
}

// A rank that is lost in a move ends the move; it is made again then.
func (s survivor) testLostInMove(t *testing.T) {
	dir := t.TempDir()
	var last string
	o := finish(t, s.command(t, dir, 4, "--pace", "15", "--trace", "--copy-every", "1000", "--die", "copy:2:2"), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nnode a\nnode b\n")
	})
	s.came(t, o, 199)
	for _, line := range strings.Split(o.stdout, "\n") {
		if _, at, ok := strings.Cut(line, " s, on "); ok {
			last = at
		}
	}
	if !strings.Contains(o.stdout, "heat: lost 1 ranks") || !strings.Contains(o.stdout, "heat: plan 100: moved ") || strings.Trim(last, "ab ") != "" {
		t.Errorf("the ranks are on %q:\n%s%s", last, o.stdout, o.stderr)
	}
}

// A plan that is written while the ranks start is carried out like a later one, and one
// of more nodes than can be held by its first nodes.
func (s survivor) testToldEarly(t *testing.T) {
	dir := t.TempDir()
	o := finish(t, s.command(t, dir, 4, "--pace", "5", "--stall", "20"), func() {
		until(t, "there is a plan", func() bool {
			found, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*", "plan"))
			return err == nil && len(found) == 1
		})
		var plan strings.Builder
		plan.WriteString("plan 100\n")
		for i := range 2000 {
			fmt.Fprintf(&plan, "node n%d\n", i)
		}
		writePlan(t, dir, plan.String())
	})
	s.came(t, o, 0)
	if !strings.Contains(o.stdout, "heat: plan 100: moved 4 ranks at iteration 1, ") || !strings.Contains(o.stdout, " s, on n0 n1 n2 n3\n") {
		t.Errorf("it did not move:\n%s%s", o.stdout, o.stderr)
	}
}

// A plan that failures have ended three times is given up, with a word; the next one is
// carried out.
func (s survivor) testGivenUp(t *testing.T) {
	dir := t.TempDir()
	o := finish(t, s.command(t, dir, 6, "--pace", "15", "--trace", "--copy-every", "1000", "--stall", "20",
		"--die", "restore:2:1", "--die", "restore:3:3", "--die", "restore:1:5"), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nnode a\nnode b\n")
		until(t, "it is given up", func() bool { return s.says(dir, "heat: plan 100: given up: ") })
		writePlan(t, dir, "plan 101\nnode c\n")
	})
	s.came(t, o, 199)
	if strings.Count(o.stdout, "heat: lost 1 ranks") != 3 || strings.Contains(o.stdout, "plan 100: moved") || !strings.Contains(o.stdout, "heat: plan 101: moved 6 ranks") {
		t.Errorf("what became of the plans:\n%s", o.stdout)
	}
}

// The plan's file is on the batch host only, the first of the plan's nodes. When all ranks
// there are lost, or the first of them, there is one that hears of the next plan.
func (s survivor) testOneReads(t *testing.T) {
	run, err := filepath.Abs("ulfm/ulfm-run")
	if err != nil {
		t.Fatal(err)
	}
	for how, first := range map[string]string{"respawn": "a b c", "shrink": "a b"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			launcher := filepath.Join(dir, "launcher") // rank --on NODE -- PROGRAM --plan FILE ...
			script := fmt.Sprintf("#!/bin/bash\nplan=/nowhere\n[ $3 != a ] || plan=$ULFM_DIR/plan\nset -- \"${@:1:6}\" $plan \"${@:8}\"\nexec %s \"$@\"\n", run)
			if err := os.WriteFile(launcher, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			ranks := len(strings.Fields(first))
			if how == "shrink" {
				ranks = 4 // on a b a b: one is left on a, and it is not the first
			}
			o := finish(t, s.command(t, dir, ranks, "--pace", "15", "--trace", "--stall", "20", "--on-loss", how, "--launcher", launcher), func() {
				s.started(t, dir)
				writePlan(t, dir, "plan 100\nnode "+strings.ReplaceAll(first, " ", "\nnode ")+"\n")
				until(t, "it has moved", func() bool { return s.says(dir, "heat: plan 100: moved ") })
				pid := s.ranksWith(t, "HEAT_PLACE=a\x00")["0"]
				if err := syscall.Kill(pid, syscall.SIGKILL); pid == 0 || err != nil {
					t.Errorf("killing rank 0, process %d: %v", pid, err)
				}
				until(t, "it is lost", func() bool { return s.says(dir, "heat: lost 1 ranks") })
				writePlan(t, dir, "plan 101\nnode a\nnode d\n")
			})
			s.came(t, o, 20)
			if !strings.Contains(o.stdout, "heat: plan 101: moved ") {
				t.Errorf("nobody has read the next plan:\n%s%s", o.stdout, o.stderr)
			}
		})
	}
}

// A plan may tell it to stop: it leaves a checkpoint, from which it goes on.
func (s survivor) testStop(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "heat.ckpt")
	args := []string{"--checkpoint", file, "--restart", "auto"}
	o := finish(t, s.command(t, dir, 4, append(args, "--pace", "15", "--trace")...), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nstop\n")
	})
	if o.code != 1 || !strings.Contains(o.stdout, "heat: stopped at iteration ") || strings.Contains(o.stdout, "heat: done") {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = s.run(t, 3, args...)
	s.came(t, o, 0)
	if !strings.Contains(o.stdout, "heat: restarted from iteration ") {
		t.Errorf("it did not go on from the checkpoint:\n%s", o.stdout)
	}
}
