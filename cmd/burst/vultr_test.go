package main

import (
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// scriptVultr is `vultr`: a Vultr for the rest of the script, at $VULTR.
func scriptVultr(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: vultr")
	}
	c := vultrtest.New(vultrtest.Options{})
	ts.Check(c.Start())
	ts.Defer(func() { ts.Check(c.Close()) })
	ts.Setenv("VULTR", c.URL())
	ts.Setenv("VULTR_API_KEY", vultrtest.Key)
}
