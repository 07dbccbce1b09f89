package bench

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/burst-hpc/burst/slurm"
)

// A burstd in a process of its own runs Slurm's commands. The shims are
// commands of these names that hand their arguments to a simulated slurmctld.

type shimCall struct {
	Name string
	Args []string
}

type shimAnswer struct {
	Out, Err []byte
	Code     int
}

// serveShims answers commands on a unix socket until ctx ends, and returns when
// all are answered.
func serveShims(ctx context.Context, socket string, runner slurm.Runner) (wait func(), err error) {
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serving Slurm's commands: %w", err)
	}
	context.AfterFunc(ctx, func() { ln.Close() })
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				answerShim(ctx, conn, runner)
			})
		}
	})
	return wg.Wait, nil
}

func answerShim(ctx context.Context, conn net.Conn, runner slurm.Runner) {
	var c shimCall
	if gob.NewDecoder(conn).Decode(&c) != nil {
		return // the command has been killed
	}
	var a shimAnswer
	var err error
	if a.Out, a.Err, err = runner.Run(ctx, c.Name, c.Args...); err != nil {
		a.Code = 1
		var exit interface{ ExitCode() int }
		if errors.As(err, &exit) {
			a.Code = exit.ExitCode()
		} else {
			a.Err = append(a.Err, err.Error()...)
		}
	}
	gob.NewEncoder(conn).Encode(a) // one that has been killed meanwhile wants no answer
}

// Shim is such a command: it prints what the slurmctld at the socket answers
// and returns the exit code.
func Shim(socket string, call []string, stdout, stderr io.Writer) (int, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 1, err
	}
	defer conn.Close()
	if err := gob.NewEncoder(conn).Encode(shimCall{call[0], call[1:]}); err != nil {
		return 1, err
	}
	var a shimAnswer
	if err := gob.NewDecoder(conn).Decode(&a); err != nil {
		return 1, err
	}
	_, oerr := stdout.Write(a.Out)
	_, eerr := stderr.Write(a.Err)
	return a.Code, errors.Join(oerr, eerr)
}

// writeShims makes the commands, in a folder.
func writeShims(dir, burst, socket string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"scontrol", "squeue", "scancel"} {
		text := fmt.Sprintf("#!/bin/sh\nexec '%s' bench-slurm '%s' %s \"$@\"\n", burst, socket, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}
