package conf

import (
	"fmt"
	"path/filepath"
)

// Files are a Site with what its files say, line by line.
type Files struct {
	Site
	Path  string // of slurm.conf
	texts []text // in the order in which Slurm reads them, slurm.conf first
	said  []statement
}

type text struct{ path, text string }

// statement is what one line of a file says; continued lines are one.
type statement struct {
	path        string
	first, last int // its lines, from 0 on
	text        string
	include     string // the file that it includes, as it is written there; empty: it includes none
	kvs         [][2]string
}

// ReadFiles is Read, and keeps what is said where.
func ReadFiles(path string) (Files, error) {
	r := reader{dir: filepath.Dir(path), site: Site{Settings: map[string]string{}, Lines: true}}
	if err := r.file(path, 0); err != nil {
		return Files{}, fmt.Errorf("reading Slurm's configuration: %w", err)
	}
	r.site.NodeDefault, r.site.PartitionDefault = r.nodeDef, r.partition
	r.site.network = readNetwork(r.dir)
	return Files{r.site, path, r.texts, r.said}, nil
}
