package main

import (
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm/conf"
)

// What slurmctld has in no switch is told once: by topology.conf, if that lacks it, too, else with the reconfiguration that it waits for.
func TestApart(t *testing.T) {
	in := conf.Input{Pools: []conf.Pool{{Name: "c6i", Nodes: []string{"c1", "c2"}}, {Name: "nfs", Nodes: []string{"nfs"}, Server: true}}}
	lacks := conf.Finding{Level: conf.Wrong, Key: "SwitchName"}
	for _, tt := range []struct {
		name      string
		connected map[string]bool
		found     []conf.Finding
		want      string
	}{
		{"no topology", nil, nil, ""},
		{"all are there", map[string]bool{"c1": true, "c2": true}, nil, ""},
		{"one is not", map[string]bool{"c1": true}, []conf.Finding{{Level: conf.OK, Key: "SwitchName"}}, "slurmctld has c2 of pool c6i in no switch or block"},
		{"topology.conf lacks it, too", map[string]bool{"c1": true}, []conf.Finding{lacks}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := sites{connected: tt.connected}.apart(in, tt.found)
			if len(got) > 1 || (len(got) == 1) != (tt.want != "") || len(got) == 1 && !strings.HasPrefix(got[0].Why, tt.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}
