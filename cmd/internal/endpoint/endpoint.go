// Package endpoint says where burstd is and how Slurm is reached: the [daemon]
// and [slurm] sections of burst.toml, read on their own and leniently, for the
// programs that slurmctld starts and that must be gone in milliseconds.
package endpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

// DefaultPath is where burst.toml lies if nobody says otherwise.
const DefaultPath = "/etc/burst/burst.toml"

// Config is where burstd listens and keeps its state, and how Slurm is reached.
type Config struct {
	Socket  string `toml:"socket"`  // burstd's unix socket
	Spool   string `toml:"spool"`   // folder for orders that burstd was not there to take
	State   string `toml:"state"`   // folder of the store, burst.db
	Metrics string `toml:"metrics"` // listen address of Prometheus metrics; empty: off
	Listen  string `toml:"listen"`  // address for the nodes of a cloud; empty: none
	// NodeURL is where those nodes reach Listen; empty: at that very address.
	NodeURL string `toml:"node_url"`

	SlurmConf string `toml:"-"` // empty: $SLURM_CONF, then Slurm's own default
	SlurmBin  string `toml:"-"` // folder of scontrol and squeue; empty: slurm.Exec looks for them
	SlurmUser string `toml:"-"` // may give orders, beside root
}

// Slurm is the part of the [slurm] section that Config takes.
type Slurm struct {
	Conf string `toml:"conf"`
	Bin  string `toml:"bin"`
	User string `toml:"user"`
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Socket:    "/run/burst/burstd.sock",
		Spool:     "/var/spool/burst",
		State:     "/var/lib/burst",
		SlurmUser: "slurm",
	}
}

// DB is the path of the store.
func (c Config) DB() string { return filepath.Join(c.State, "burst.db") }

// ClusterFile is where the store keeps the cluster's id for those that do not
// open it.
func (c Config) ClusterFile() string { return filepath.Join(c.State, "cluster-id") }

// PauseFile is where the red button leaves word for a burstd that does not
// answer: it launches nothing once it has seen the file, which it then removes.
func (c Config) PauseFile() string { return filepath.Join(c.State, "pause") }

// Path is the configuration file to read: flag (--config) if it is set, then
// $BURST_CONFIG, then DefaultPath.
func Path(flag string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv("BURST_CONFIG"); env != "" {
		return env
	}
	return DefaultPath
}

// Load reads path. Other sections are ignored, even where they are not TOML: a
// file that is being edited must not cost an order. With an error comes
// the default configuration, for a caller that would rather go on with it.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Default(), fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := parse(text)
	if err == nil {
		return c, nil
	}
	if c, cutErr := parse(cut(text)); cutErr == nil {
		return c, nil
	}
	return Default(), fmt.Errorf("reading the configuration %s: %w", path, err)
}

func parse(text []byte) (Config, error) {
	var c Config
	var s Slurm
	file := struct {
		Daemon *Config `toml:"daemon"`
		Slurm  *Slurm  `toml:"slurm"`
	}{&c, &s}
	if _, err := toml.Decode(string(text), &file); err != nil {
		return Config{}, err
	}
	return c.With(s), nil
}

// With adds what s says, and the default of all that neither says.
func (c Config) With(s Slurm) Config {
	d := Default()
	return Config{
		Socket:    cmp.Or(c.Socket, d.Socket),
		Spool:     cmp.Or(c.Spool, d.Spool),
		State:     cmp.Or(c.State, d.State),
		Metrics:   c.Metrics,
		Listen:    c.Listen,
		NodeURL:   c.NodeURL,
		SlurmConf: s.Conf,
		SlurmBin:  s.Bin,
		SlurmUser: cmp.Or(s.User, d.SlurmUser),
	}
}

// cut keeps the lines of [daemon] and [slurm], for a text that does not parse as a whole.
func cut(text []byte) []byte {
	var kept []byte
	keep := false
	for line := range bytes.Lines(text) {
		if bare := bytes.TrimSpace(line); bytes.HasPrefix(bare, []byte("[")) {
			header, _, _ := bytes.Cut(bare[1:], []byte("]"))
			name := string(bytes.TrimSpace(header))
			keep = name == "daemon" || name == "slurm"
		}
		if keep {
			kept = append(kept, line...)
		}
	}
	return kept
}
