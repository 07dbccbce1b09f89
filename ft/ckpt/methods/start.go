package methods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// launch is a ckpt.Launch, with what methods do with it.
type launch ckpt.Launch

// restartEnv is the environment that every method gives a step: whether it is a
// restart, and from what.
func restartEnv(l launch) []string {
	if l.From == nil {
		return setEnv(l.Env, map[string]string{"BURST_RESTART": "0", "BURST_GENERATION": "", "BURST_ITERATION": ""})
	}
	iteration := ""
	if l.From.Iteration >= 0 {
		iteration = strconv.FormatInt(l.From.Iteration, 10)
	}
	return setEnv(l.Env, map[string]string{"BURST_RESTART": "1", "BURST_GENERATION": l.From.Dir, "BURST_ITERATION": iteration})
}

// setEnv returns env with the variables set, and without those set to nothing.
func setEnv(env []string, vars map[string]string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		_, ours := vars[key]
		return ours
	})
	for k, v := range vars {
		if v != "" {
			out = append(out, k+"="+v)
		}
	}
	return out
}

// command is l's step as args, found by the PATH of l's own environment.
func (l launch) command(args, env []string) (*exec.Cmd, error) {
	if len(args) == 0 || args[0] == "" {
		return nil, errors.New("no command is given")
	}
	path, err := l.lookPath(args[0])
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: args, Env: env, Dir: l.Dir, Stdin: l.Stdin, Stdout: l.Stdout, Stderr: l.Stderr}, nil
}

func (l launch) lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // as the kernel reads it, from Dir
	}
	path := ""
	for _, kv := range l.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a program of the current folder is named ./program
		}
		found := filepath.Join(dir, name)
		if st, err := os.Stat(found); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s: not found on PATH", name)
}

// dir is where the step runs, absolute.
func (l launch) dir() (string, error) {
	if l.Dir != "" {
		return filepath.Abs(l.Dir)
	}
	return os.Getwd()
}

// begin starts args as the step, unless ctx is over.
func (l launch) begin(ctx context.Context, args, env []string) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the step is not started: %w", err)
	}
	cmd, err := l.command(args, env)
	if err != nil {
		return nil, err
	}
	return startProcess(cmd)
}

// madeBy says why the generation to restart from is not one of that method, or
// is not there any more.
func (l launch) madeBy(method string) error {
	switch {
	case l.From == nil:
		return nil
	case l.From.Method != "" && l.From.Method != method:
		return fmt.Errorf("%s was made by the method %s, not %s", l.From.Dir, l.From.Method, method)
	}
	if err := hasContent(l.From.Dir); err != nil {
		return fmt.Errorf("restarting from %s: %w", l.From.Dir, err)
	}
	return nil
}

// hasContent wants a file that is not empty.
func hasContent(folder string) error {
	found := errors.New("found")
	var denied error // a file that looks empty and may not be opened: another has content, maybe
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		size, err := sizeNow(path)
		if err == nil && size > 0 {
			return found
		}
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile, as what NFS keeps of a deleted file
			return nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
			return nil
		}
		return err
	})
	switch {
	case errors.Is(err, found):
		return nil
	case err != nil:
		return err
	case denied != nil:
		return denied
	}
	return errors.New("no file with content is in it")
}

// sizeNow is a file's size. On NFS what this node made empty and others wrote may look
// empty for a while, and opening it asks the server.
func sizeNow(path string) (int64, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if st.Size() > 0 || !st.Mode().IsRegular() {
		return st.Size(), nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return 0, err
	}
	return st.Size(), nil
}
