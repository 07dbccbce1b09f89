package power

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
)

var (
	phases    = []Phase{noRecord, Wanted, Launching, Booting, Up, Freeing}
	powers    = []power{unknown, off, poweringUp, poweringDown, on, down, failed, removed}
	instances = []cloud.State{noInstance, noAnswer, cloud.Pending, cloud.Running, cloud.Terminating, cloud.Terminated}
)

// TestTable compares every cell of the table of reconciliation with the one
// that was written down and read by a person, testdata/table.txt: a line for
// each journal's phase and Slurm's state, a column for each state of the instance.
func TestTable(t *testing.T) {
	f, err := os.Open("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string][]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			want[fields[0]+" "+fields[1]] = fields[2:]
		}
	}
	cells := 0
	for _, j := range phases {
		for _, s := range powers {
			row := want[fmt.Sprintf("%s %s", j, s)]
			if len(row) != len(instances) {
				t.Errorf("journal %s, Slurm %s: the table has %d cells, want %d", j, s, len(row), len(instances))
				continue
			}
			for i, inst := range instances {
				cells++
				// A cell is "action" or, where a wrong address matters, "action/action with a wrong address".
				right, wrong, both := strings.Cut(row[i], "/")
				if !both {
					wrong = right
				}
				if got := decide(cell{slurm: s, journal: j, instance: inst}); got != action(right) {
					t.Errorf("journal %s, Slurm %s, instance %s: %s, want %s", j, s, inst, got, right)
				}
				if got := decide(cell{slurm: s, journal: j, instance: inst, addrWrong: true}); got != action(wrong) {
					t.Errorf("journal %s, Slurm %s, instance %s, wrong address: %s, want %s", j, s, inst, got, wrong)
				}
			}
		}
	}
	if cells != len(phases)*len(powers)*len(instances) {
		t.Errorf("%d cells were compared", cells)
	}
}

// TestTableKeepsItsPromises checks what must hold whatever the cells say.
func TestTableKeepsItsPromises(t *testing.T) {
	for _, j := range phases {
		for _, s := range powers {
			for _, i := range instances {
				for n := range 4 {
					c := cell{slurm: s, journal: j, instance: i, addrWrong: n&1 > 0, cut: n&2 > 0}
					a := decide(c)
					if plain := (cell{slurm: s, journal: j, instance: i, addrWrong: c.addrWrong}); (a == isolate) != (c.cut && j == Up && s == down && (i == cloud.Running || i == cloud.Pending)) || a != isolate && a != decide(plain) {
						t.Errorf("%+v: %s", c, a)
					}
					strange := c
					if strange.stranger = true; (decide(strange) == isolate) != (a == isolate || a == wait && j == Up && s == on && (i == cloud.Running || i == cloud.Pending)) {
						t.Errorf("%+v: %s", strange, decide(strange))
					}
					if s == unknown && a != wait {
						t.Errorf("%+v: %s, though Slurm said nothing of the node", c, a)
					}
					if a == dead && i != cloud.Terminated && i != cloud.Terminating {
						t.Errorf("%+v: dead, though the cloud did not say so", c)
					}
					if (a == dead || a == free || a == suspend) && s == on && i != cloud.Terminated && i != cloud.Terminating {
						t.Errorf("%+v: %s would kill what runs there", c, a)
					}
					if (a == forget || a == recreate) && (j == Booting) {
						t.Errorf("%+v: %s would lose a booting instance", c, a)
					}
				}
			}
		}
	}
}

func TestStrays(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   stray
		want strayAction
	}{
		{"its launch is open", stray{launchOpen: true}, leave},
		{"its launch is open, first round, says its node", stray{launchOpen: true, first: true, adoptable: true}, leave},
		{"says its node", stray{adoptable: true}, adopt},
		{"says its node, first round", stray{adoptable: true, first: true}, adopt},
		{"nobody's, first round", stray{first: true}, leave},
		{"nobody's, and new", stray{young: true}, leave},
		{"new, says its node", stray{young: true, adoptable: true}, adopt},
		{"nobody's", stray{}, terminate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.decide(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
