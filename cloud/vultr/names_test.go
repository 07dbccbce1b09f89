package vultr_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// untilNamed waits until the list shows the instance as the node.
func untilNamed(t *testing.T, p *vultr.Provider, id, node string) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1", IDs: []string{id}})
		if err != nil || len(all) != 1 {
			t.Fatalf("List: %v, %v", all, err)
		}
		if all[0].Node == node {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s is node %q, want %q", id, all[0].Node, node)
		}
	}
}

// The engine's only loop tells names, and no node needs them to boot: Assign
// waits for no answer of Vultr's, and what is refused for one instance is not the
// others' failure.
func TestNamesAreWrittenBeside(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]vultrtest.Fault{
		"hangs":             {Hang: true},
		"refused":           {Status: http.StatusForbidden, Message: "not yours"},
		"refused, in words": {Status: http.StatusBadRequest, Message: "Invalid tag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{})
			p := over(t, c)
			got, err := p.Launch(t.Context(), ask("t-1", 2))
			if err != nil || len(got) != 2 {
				t.Fatalf("%v, %v", ids(got), err)
			}
			c.Fail("PATCH instances", fault) // one of the two
			began := time.Now()
			if err := p.Assign(t.Context(), map[string]string{got[0].ID: "n1", got[1].ID: "n2"}); err != nil {
				t.Errorf("Assign: %v", err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %s", took)
			}
			if fault.Hang { // the other has its name while the first hangs
				for until := time.Now().Add(10 * time.Second); !slices.ContainsFunc(c.Machines(), named); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(until) {
						t.Fatal("while one hangs, the other gets no name")
					}
				}
				return
			}
			for i, node := range []string{"n1", "n2"} {
				untilNamed(t, p, got[i].ID, node)
			}
		})
	}
}

func named(m vultrtest.Machine) bool {
	return slices.Contains(m.Tags, "burst:node=n1") || slices.Contains(m.Tags, "burst:node=n2")
}
