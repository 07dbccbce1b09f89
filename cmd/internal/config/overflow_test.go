package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/slurm/overflow"
)

func TestOverflow(t *testing.T) {
	got, err := Load("testdata/good/overflow.toml")
	if err != nil {
		t.Fatal(err)
	}
	want := Overflow{Rules: []overflow.Rule{
		{Name: "small", From: []string{"main", "long"}, To: []string{"cloud"}, Accounts: []string{"physics"}, Users: []string{"!guest"}, QOS: []string{"normal"}, MinNodes: 1, MaxNodes: 4,
			MaxTime: 4 * time.Hour, Features: []string{"avx512"}, Gres: []string{"gpu:a100"}, Licenses: []string{"ansys"}, Directives: []string{"stay=no", "ckpt=dmtcp"},
			After: 10 * time.Minute, StartsLater: time.Hour, AtOnce: 20, Line: 12},
		{Name: "rule-2", From: []string{"main"}, To: []string{"cloud"}, MinNodes: 2, Line: 28},
		{Name: "rule-3", From: []string{"main"}, To: []string{"cloud"}, MinNodes: 3, MaxNodes: 3, Line: 32},
		{Name: "rule-4", From: []string{"main"}, To: []string{"cloud"}, MaxNodes: 8, NoRequeue: true, Line: 36},
	}, OnPrem: overflow.OnPrem{FileSystems: []string{"/scratch"}, Licenses: []string{"matlab"}, Features: []string{"infiniband-hdr"}}}
	if d := cmp.Diff(want, got.Overflow); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
