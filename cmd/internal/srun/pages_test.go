package srun

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm/directive"
)

// TestPages reads every command line of burst-srun in the documentation as burst-srun does,
// with what it knows of srun's options by itself, and the words of its --ckpt.
func TestPages(t *testing.T) {
	found := 0
	noSrun := func(context.Context, string) (string, error) { return "", errors.New("no srun is asked here") }
	for _, b := range progtest.Blocks(t) {
		for _, c := range b.Commands() {
			if c.Name() != "burst-srun" {
				continue
			}
			found++
			r, err := read(t.Context(), c.Words[1:], func(string) string { return "" }, noSrun)
			if err == nil && r.once != "" {
				err = checkName(r.once)
			}
			if err == nil && len(r.ckpt) > 0 {
				_, err = directive.ReadOptions(r.ckpt...)
			}
			if err == nil && len(r.call.Program()) == 0 {
				err = errors.New("it starts no program")
			}
			if err != nil {
				t.Errorf("%s: %s: %v", b.Where(c.Line), strings.Join(c.Words, " "), err)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d command lines found", found)
	}
}
