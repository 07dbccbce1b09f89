// Command gotest is go test with two things more. At its end it says what tests have not
// tried, which they do by t.Skip or t.Log with the words NOT TESTED, and which go test
// shows to nobody who does not ask for everything. And it tests two packages at a time,
// which mostly wait, those whose tests start clusters after the others, but one by one those
// whose tests want all processors. Its last argument says which packages, the others are
// go test's; its exit code is go test's.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: gotest [FLAG OF GO TEST...] PACKAGES")
		os.Exit(2)
	}
	flags, pattern := os.Args[1:len(os.Args)-1], os.Args[len(os.Args)-1]
	g, err := apart(pattern)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	v := newView(os.Stdout)
	two := append([]string{"-p=2"}, flags...)
	code := max(test(v, two, g.side), test(v, two, g.pairs), test(v, append([]string{"-p=1"}, flags...), g.alone))
	v.end()
	os.Exit(code)
}

// test is go test of packages, none if there are none; it returns its exit code.
func test(v *view, flags, packages []string) int {
	if len(packages) == 0 {
		return 0
	}
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, flags...), packages...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 2
	}
	rerr := v.read(events)
	err = cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(1, exit.ExitCode())
	}
	if err = errors.Join(err, rerr); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	return 0
}
