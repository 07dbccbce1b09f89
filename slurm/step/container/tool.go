package container

import (
	"errors"
	"os"
	"path/filepath"
)

// Tool is a program that runs images.
type Tool struct {
	Name string // "apptainer" or "singularity"
	Path string
}

// ErrNoTool: neither of the tools is on PATH.
var ErrNoTool = errors.New("neither apptainer nor singularity is on PATH: install Apptainer, or load its module")

// prefixes begin the tools' variables. Apptainer reads Singularity's, too, after its own.
var prefixes = []string{"APPTAINER_", "SINGULARITY_"}

// FindTool looks for Apptainer, and then for Singularity, on a PATH.
func FindTool(path string) (Tool, error) {
	for _, name := range []string{"apptainer", "singularity"} {
		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) {
				continue
			}
			file := filepath.Join(dir, name)
			if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return Tool{name, file}, nil
			}
		}
	}
	return Tool{}, ErrNoTool
}

// prefix begins the tool's own variables.
func (t Tool) prefix() string {
	if t.Name == "singularity" {
		return prefixes[1]
	}
	return prefixes[0]
}
