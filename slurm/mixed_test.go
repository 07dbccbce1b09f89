package slurm

import "testing"

func TestMixed(t *testing.T) {
	s := &Snapshot{Nodes: map[string]Node{"c1": {Partitions: []string{"cloud", "any"}}, "on1": {Partitions: []string{"any"}}, "on2": {Partitions: []string{"site"}}},
		Jobs: map[uint32]Job{
			1: {ID: 1, Partition: "any"}, 2: {ID: 2, Partition: "cloud"}, 3: {ID: 3, Partition: "cloud,any"}, 4: {ID: 4, Partition: "any,site"}, 5: {ID: 5, Partition: "site,cloud"}, 6: {ID: 6, Partition: "other"},
			10: {ID: 10, HetID: 10, Partition: "any"}, 11: {ID: 11, HetID: 10, Partition: "site"},
			20: {ID: 20, HetID: 20, Partition: "any"}, 21: {ID: 21, HetID: 20, Partition: "cloud"},
			30: {ID: 30, HetID: 30, Partition: "site"}, 31: {ID: 31, HetID: 30, Partition: "site"},
		}}
	mixed := s.Mixed(func(n string) bool { return n == "c1" })
	want := map[uint32]bool{1: true, 3: true, 10: true, 11: true}
	for id, j := range s.Jobs {
		if mixed(j) != want[id] {
			t.Errorf("%+v: %t", j, !want[id])
		}
	}
}
