package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxLog is how long a node's log may grow, in bytes, before it is moved to
// NODE.log.1 and a new one is begun.
const maxLog = 1 << 20

// log is a node's file of what its setups have said. A nil one keeps nothing.
type log struct {
	path string
	file *os.File
	size int64
}

func openLog(dir, node string) (*log, error) {
	if dir == "" {
		return nil, nil
	}
	if !instances().MatchString(node) || strings.Contains(node, "..") {
		return nil, fmt.Errorf("%q is no name of a node", node)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	l := &log{path: filepath.Join(dir, node+".log")}
	return l, l.open()
}

func (l *log) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// write appends text. A log that cannot be written stops no setup.
func (l *log) write(text []byte) {
	if l == nil || l.file == nil || len(text) == 0 {
		return
	}
	clean := printable(string(text))
	if l.size+int64(len(clean)) > maxLog && l.size > 0 {
		l.close()
		if err := os.Rename(l.path, l.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		if l.open() != nil {
			return
		}
	}
	n, _ := l.file.WriteString(clean)
	l.size += int64(n)
}

// note writes a line of our own.
func (l *log) note(format string, args ...any) {
	l.write(fmt.Appendf(nil, "%s burst: %s\n", time.Now().UTC().Format(time.RFC3339), oneLine(fmt.Sprintf(format, args...))))
}

func (l *log) close() {
	if l != nil && l.file != nil {
		_ = l.file.Close() // what was not written is lost, and no setup minds
		l.file = nil
	}
}
