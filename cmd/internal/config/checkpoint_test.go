package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/slurm/directive"
)

// fullLayers are those of testdata/good/full.toml.
var fullLayers = []directive.Layer{
	{Source: directive.Source{Kind: directive.Site}, Settings: []directive.Setting{
		{Key: "ckpt", Value: "dmtcp", Line: 19}, {Key: "strategy", Value: "both", Line: 20}, {Key: "interval", Value: "auto", Line: 21},
		{Key: "dir", Value: "/nfs/ckpt/%u", Line: 22}, {Key: "keep", Value: "3", Line: 23},
		{Key: "signal", Value: "SIGUSR1", Line: 17}, {Key: "grace", Value: "20s", Line: 18}, {Key: "retries", Value: "0", Line: 24}}},
	{Source: directive.Source{Kind: directive.Pool, Name: "small"}, Settings: []directive.Setting{
		{Key: "ckpt", Value: "command", Line: 69}, {Key: "keep", Value: "4", Line: 69},
		{Key: "checkpoint", Value: "tool save", Line: 69}, {Key: "restart", Value: "tool load", Line: 69}}},
	{Source: directive.Source{Kind: directive.Partition, Name: "cloud"}, Settings: []directive.Setting{{Key: "dir", Value: "/fsx/%u", Line: 30}}},
	{Source: directive.Source{Kind: directive.Partition, Name: "night"}, Settings: []directive.Setting{{Key: "strategy", Value: "none", Line: 33}}},
}

func TestDefaults(t *testing.T) {
	c, err := Load("testdata/good/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, partition, pool string
		want                  string // method strategy dir keep
		from                  string // of dir
	}{
		{"a pool", "cloud", "small", "command both /fsx/%u 4", "partition cloud, line 30 of burst.toml"},
		{"a pool without a section", "night", "large", "dmtcp none /nfs/ckpt/%u 3", "site, line 22 of burst.toml"},
		{"pool not known yet", "cloud", "", "dmtcp both /fsx/%u 3", "partition cloud, line 30 of burst.toml"},
		{"another partition", "debug", "", "dmtcp both /nfs/ckpt/%u 3", "site, line 22 of burst.toml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := c.Defaults(tt.partition, tt.pool)
			m, err := directive.Said{Site: d}.Merge()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join([]string{m.Method, m.Strategy, m.Dir, m.Value("keep")}, " "); got != tt.want || m.From["dir"].String() != tt.from || d.Reserve != 10<<30 {
				t.Errorf("got %q from %s, reserve %d", got, m.From["dir"], d.Reserve)
			}
		})
	}
}

// A file that says nothing of checkpoints has limits all the same, and a file of
// before goes on as it was.
func TestCheckpointDefaults(t *testing.T) {
	minimal, err := os.ReadFile("testdata/good/minimal.toml")
	if err != nil {
		t.Fatal(err)
	}
	base := Checkpoint{AtOnce: 32, Margin: 5 * time.Second}
	with := func(change func(c *Checkpoint)) Checkpoint { c := base; change(&c); return c }
	tests := []struct {
		name, section string
		want          Checkpoint
	}{
		{"nothing", "", base},
		{"signal", "signal = \"usr2\"", with(func(c *Checkpoint) { c.Signal, c.Grace = "USR2", 20*time.Second })},
		{"signal and grace", "signal = \"B:TERM\"\ngrace = \"2m\"", with(func(c *Checkpoint) { c.Signal, c.Grace = "B:TERM", 2*time.Minute })},
		{"grace alone", "grace = \"2m\"", base},
		{"no limit", "at_once = 0", with(func(c *Checkpoint) { c.AtOnce = 0 })},
		{"terabytes", "reserve = \"2T\"", with(func(c *Checkpoint) { c.Reserve = 2 << 40 })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse("x", string(minimal)+"\n[checkpoint]\n"+tt.section+"\n")
			if err != nil {
				t.Fatal(err)
			}
			c.Checkpoint.Layers = nil
			if d := cmp.Diff(tt.want, c.Checkpoint); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestAsksForCheckpoints: one section that names a method is enough.
func TestAsksForCheckpoints(t *testing.T) {
	for text, want := range map[string]bool{
		"":                               false,
		"[checkpoint]\nkeep = 3":         false,
		"[checkpoint]\nckpt = \"none\"":  false,
		"[checkpoint]\nckpt = \"dmtcp\"": true,
		"[pool.a]\n[pool.b.checkpoint]\nckpt = \"scr\"": true,
		"[partition.x.checkpoint]\nckpt = \"mana\"":     true,
		"pool = 7": false,
	} {
		var tree map[string]any
		if err := toml.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		if got := asksForCheckpoints(tree); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
