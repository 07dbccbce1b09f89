// Command gotest is go test with one thing more: at its end it says what tests have not
// tried, which they do by t.Skip or t.Log with the words NOT TESTED, and which go test
// shows to nobody who does not ask for everything. Its exit code is go test's.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	v := newView(os.Stdout)
	rerr := v.read(events)
	v.end()
	err = cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		os.Exit(max(1, exit.ExitCode()))
	}
	if err = errors.Join(err, rerr); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}
