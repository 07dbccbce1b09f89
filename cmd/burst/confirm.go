package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cmd/internal/cli"
)

// isTerminal says whether somebody sits at f.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// errNoTerminal is what a command says that must be confirmed, and cannot be.
func errNoTerminal(command string) error {
	return cli.UsageError(errors.New("standard input is no terminal: nobody can confirm this"), "--yes confirms it: "+command+" --yes")
}

// confirm asks for one of the words, and returns an error for any other.
func confirm(ctx context.Context, in io.Reader, out io.Writer, words ...string) error {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" }) // which Enter alone would be
	fmt.Fprintf(out, "Type %s to go on: ", strings.Join(words, " or "))
	answer := make(chan string, 1)
	go func() { // a read does not end with ctx; the process does
		line, _ := bufio.NewReader(in).ReadString('\n') // at an end of file: what there is, which is no yes
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return errors.New("interrupted; nothing has been done")
	case line := <-answer:
		if !slices.Contains(words, strings.TrimSpace(line)) {
			return errors.New("not confirmed; nothing has been done")
		}
		return nil
	}
}
