package methods

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// criuPipes connect a step to its input and output. CRIU restores a file that is
// open only if it is as it was, and a job's output has grown since; but for a pipe
// it takes another one in its place.
type criuPipes struct {
	child [3]*os.File // its stdin, stdout and stderr
	// names are what CRIU calls the pipes among them: "pipe:[4711]"; empty: a file
	// that is restored by its path.
	names  [3]string
	ours   []*os.File // our ends, which are read or written here
	copied sync.WaitGroup

	mu  sync.Mutex
	err error // output that was lost
}

func newCRIUPipes(l launch) (*criuPipes, error) {
	p := &criuPipes{}
	err := p.input(l.Stdin)
	if err == nil {
		err = p.output(1, l.Stdout)
	}
	if err == nil && l.Stderr != nil && sameWriter(l.Stdout, l.Stderr) {
		p.child[2], p.names[2] = p.child[1], p.names[1] // in the order in which it is written
	} else if err == nil {
		err = p.output(2, l.Stderr)
	}
	if err != nil {
		p.started()
		p.close()
		return nil, err
	}
	return p, nil
}

// sameWriter compares what may not be comparable.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}

func (p *criuPipes) input(from io.Reader) error {
	if f, ok := from.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			p.child[0] = f
			return nil
		}
	}
	if from == nil {
		null, err := os.Open(os.DevNull)
		p.child[0] = null
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.child[0], p.ours = r, append(p.ours, w)
	go func() { // until the step has ended: a terminal may say nothing more
		io.Copy(w, from)
		w.Close()
	}()
	return p.name(0)
}

func (p *criuPipes) output(fd int, to io.Writer) error {
	if to == nil {
		to = io.Discard
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.child[fd], p.ours = w, append(p.ours, r)
	p.copied.Go(func() {
		_, err := io.Copy(to, r)
		r.Close() // else the step would wait for ever in a pipe that is full
		if err != nil && !errors.Is(err, os.ErrClosed) {
			p.mu.Lock()
			p.err = cmp.Or(p.err, err)
			p.mu.Unlock()
		}
	})
	return p.name(fd)
}

// lost says why output was lost, as from a file system that is full.
func (p *criuPipes) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("output: %w", p.err)
}

// name finds what CRIU calls a pipe.
func (p *criuPipes) name(fd int) error {
	st, err := p.child[fd].Stat()
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("a pipe without an inode")
	}
	p.names[fd] = fmt.Sprintf("pipe:[%d]", sys.Ino)
	return nil
}

// started closes the child's ends here. A file of the caller's stays open.
func (p *criuPipes) started() {
	for fd, f := range p.child {
		if f != nil && (fd > 0 || p.names[0] != "" || f.Name() == os.DevNull) {
			f.Close() // twice, where stdout and stderr are one
		}
	}
}

// close waits, a little, for the last output, and closes our ends.
func (p *criuPipes) close() {
	done := make(chan struct{})
	go func() {
		p.copied.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainTime): // a process left behind holds it open
	}
	for _, f := range p.ours {
		f.Close()
	}
}
