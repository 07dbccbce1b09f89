package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// TestBuildErrorHints: what is to be done is said where it is known, and only there.
func TestBuildErrorHints(t *testing.T) {
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		hint string // "": none
	}{
		{"no capacity", t.Context(), fmt.Errorf("launching small: %w", &cloud.Error{Kind: cloud.Capacity, Op: "launch", Err: errors.New("0 of 1")}), "build again later, or with another type or zone"},
		{"a line of the setup", t.Context(), &imaging.SetupError{Why: `setup line 3: "make": exit 2`}, "mend the line in the pool's setup, and build again"},
		{"a step of the bootstrap's own", t.Context(), &imaging.SetupError{Why: "no package manager that is known"}, ""},
		{"no right", t.Context(), &cloud.Error{Kind: cloud.Auth, Op: "launch", Err: errors.New("you may not")}, ""},
		{"interrupted", cut, errors.New("cut off"), ""},
	} {
		var out, shown bytes.Buffer
		err := buildError(tt.ctx, &out, tt.err)
		cli.Report(&shown, err)
		if !errors.Is(err, tt.err) || strings.Contains(shown.String(), "build again") != (tt.hint != "") || !strings.Contains(shown.String(), tt.hint) {
			t.Errorf("%s: %s", tt.name, shown.String())
		}
	}
}
