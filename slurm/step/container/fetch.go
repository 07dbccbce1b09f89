package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Fetch is what brings an image to a cache: a copy of a file, or a pull by the tool. An
// error of what was pulled ends with the tool's last words.
func Fetch(i Image, t Tool, environ []string) Fill {
	if i.Remote() {
		return func(ctx context.Context, part string) error { return pull(ctx, t, i.Ref, pulling{part, environ}) }
	}
	return func(ctx context.Context, part string) error { return duplicate(ctx, i, part) }
}

// pulling is where a pull goes.
type pulling struct {
	part    string
	environ []string
}

// pullStop is what a pull gets to end after SIGTERM.
const pullStop = 5 * time.Second

// pull has the tool fetch the image by its digest. The tool's own cache stays out of it:
// it is in the home folder, without a bound, and this one keeps what was pulled.
func pull(ctx context.Context, t Tool, r Ref, p pulling) error {
	cmd := exec.CommandContext(ctx, t.Path, "pull", "--disable-cache", p.part, r.String())
	cmd.Env = append(p.environ[:len(p.environ):len(p.environ)], temporary(p.environ, filepath.Dir(p.part))...)
	// Its children are ended with it, and it with us, at any line.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = pullStop
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("pulling %s: %w", r, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("pulling %s by %s: %w: %s", r, t.Name, err, lastWords(said))
	}
	return nil
}

// temporary has the tool work in the folder of images, where nothing else is said: a
// large image does not fit into many a /tmp.
func temporary(environ []string, dir string) []string {
	for _, kv := range environ {
		for _, p := range prefixes {
			if strings.HasPrefix(kv, p+"TMPDIR=") {
				return nil
			}
		}
	}
	return []string{prefixes[0] + "TMPDIR=" + dir, prefixes[1] + "TMPDIR=" + dir}
}

// lastWords are the last lines of what a tool has said, in one.
func lastWords(said []byte) string {
	lines := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(said, nil))), "\n")
	text := strings.Join(lines[max(0, len(lines)-3):], "; ")
	return text[max(0, len(text)-600):]
}

const (
	// staleFor is how long shared storage may show a node a file as it was before.
	staleFor = 5 * time.Second
	// stalePause is between two looks at it.
	stalePause = 250 * time.Millisecond
)

// opened opens the file that is meant.
func opened(ctx context.Context, i Image) (*os.File, error) {
	tick := time.NewTicker(stalePause)
	defer tick.Stop()
	for began := time.Now(); ; {
		f, err := os.Open(i.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE) {
			return nil, fmt.Errorf("copying the image: %w", err)
		}
		if err == nil {
			var key string
			if key, _, err = identity(f); err == nil && key == i.Key {
				return f, nil
			}
			err = errors.Join(err, f.Close())
		}
		if time.Since(began) > staleFor {
			return nil, errors.Join(fmt.Errorf("%s is another file here than where the step was started: if it has changed since, start the step again", i.Path), err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// duplicate copies the file, if it is still the one that is meant.
func duplicate(ctx context.Context, i Image, part string) error {
	from, err := opened(ctx, i)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("copying the image: %w", err)
	}
	n, err := io.Copy(to, reader{ctx, from})
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("copying %s to this node's disk: %w", i.Path, err)
	}
	// One that was written anew meanwhile is a mixture of two.
	if key, _, err := identity(from); err != nil || key != i.Key || n != i.Size {
		return errors.Join(fmt.Errorf("%s has changed since the step was started: start it again", i.Path), err)
	}
	return nil
}

// reader ends a copy with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
