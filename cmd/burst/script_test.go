package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/packaging/quick"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"burst": main})
}

type tests struct{ *testing.M }

// Run has all tests ask clouds with credentials that none would take, so that they can be parallel.
func (t tests) Run() int {
	for _, v := range mototest.Env() {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return quick.Run(t.M)
}

func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOGC", "off") // burst is run hundreds of times, and ends before a collection is worth it
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"burstd":   scriptBurstd,
			"ec2":      scriptEC2,
			"exitcode": scriptExitCode,
			"munged":   scriptMunged,
			"vultr":    scriptVultr,
		},
	})
}

// scriptEC2 is `ec2 FOLDER`: an AWS for the rest of the script, at $EC2, whose
// answer to each action is FOLDER/ACTION.xml, an error where there is none.
func scriptEC2(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ec2 FOLDER")
	}
	dir := ts.MkAbs(args[0])
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(filepath.Join(dir, filepath.Base(r.FormValue("Action"))+".xml"))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			text = []byte(`<Response><Errors><Error><Code>InvalidAction</Code><Message>no answer</Message></Error></Errors></Response>`)
		}
		w.Header().Set("Content-Type", "text/xml")
		if _, err := w.Write(text); err != nil {
			ts.Logf("answering %s: %v", r.FormValue("Action"), err)
		}
	}))
	ts.Defer(srv.Close)
	ts.Setenv("EC2", srv.URL)
	ts.Setenv("AWS_ACCESS_KEY_ID", "test")
	ts.Setenv("AWS_SECRET_ACCESS_KEY", "test")
}

// scriptExitCode is `exitcode CODE COMMAND [ARGUMENT...]`: the command must
// exit with that code, not 0.
func scriptExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &exit) || exit.ExitCode() != want {
		ts.Fatalf("%q: %v, want exit code %d", args[1:], err, want)
	}
}
