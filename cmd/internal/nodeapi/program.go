package nodeapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// How a program is sent. A VPN may be slow, but not for ever, and not silent.
const (
	sendTimeout  = 20 * time.Minute // also the life of the answer's credential, which is opened after the last byte
	chunkTimeout = 30 * time.Second
	chunk        = 64 << 10 // bytes
	maxSending   = 16       // downloads at once, of as many instances
	maxProgram   = 64 << 20 // bytes, as it lies on the disk
)

// machines are the architectures of nodes, by their number in an ELF header.
var machines = map[string]uint16{"amd64": 62, "arm64": 183}

// places are the folders that may have burst-agent: beside burstd, and those
// of its installation, below /usr or wherever.
func places() []string {
	dirs := []string{"/usr/sbin", "/usr/lib/burst"}
	if exe, err := os.Executable(); err == nil {
		dir := filepath.Dir(exe)
		dirs = append([]string{dir, filepath.Join(dir, "../lib/burst")}, dirs...)
	}
	return dirs
}

// packed is a program as it is sent.
type packed struct {
	data []byte
	sum  string // SHA-256 of data in hex
	path string
	time time.Time // of the file
	size int64     // of the file
}

// programs has burst-agent for each architecture, packed once for as long as the file is the same.
type programs struct {
	dirs []string

	mu  sync.Mutex // also while one is packed: the others want the same
	all map[string]*packed

	sending struct {
		sync.Mutex
		to map[string]bool // instances
	}
}

func newPrograms(dirs []string) *programs {
	p := &programs{dirs: dirs, all: map[string]*packed{}}
	p.sending.to = map[string]bool{}
	return p
}

// enter takes one of the few downloads, which ends with leave. An instance has
// one at a time: one that takes its bytes slowly, or none, holds no more.
func (p *programs) enter(instance string) (leave func(), ok bool) {
	p.sending.Lock()
	defer p.sending.Unlock()
	if len(p.sending.to) >= maxSending || p.sending.to[instance] {
		return nil, false
	}
	p.sending.to[instance] = true
	return func() {
		p.sending.Lock()
		defer p.sending.Unlock()
		delete(p.sending.to, instance)
	}, true
}

// get finds the program for the architecture, os.ErrNotExist if there is none.
func (p *programs) get(arch string) (*packed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path, info, err := agentIn(p.dirs, arch)
	if err != nil {
		return nil, err
	}
	if f := p.all[arch]; f != nil && f.path == path && f.time.Equal(info.ModTime()) && f.size == info.Size() {
		return f, nil
	}
	f, err := pack(path, arch)
	if err != nil {
		return nil, err
	}
	f.path, f.time, f.size = path, info.ModTime(), info.Size()
	p.all[arch] = f
	return f, nil
}

// Agent is where this installation has burst-agent for the architecture,
// os.ErrNotExist if nowhere.
func Agent(arch string) (path string, err error) {
	path, _, err = agentIn(places(), arch)
	return path, err
}

func agentIn(dirs []string, arch string) (string, os.FileInfo, error) {
	names := []string{"burst-agent-" + arch}
	if arch == runtime.GOARCH {
		names = []string{"burst-agent", names[0]}
	}
	for _, dir := range dirs {
		for _, name := range names {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				return path, info, err
			}
		}
	}
	return "", nil, os.ErrNotExist
}

func pack(path, arch string) (*packed, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxProgram+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxProgram || len(text) < 20 || string(text[:4]) != "\x7fELF" || binary.LittleEndian.Uint16(text[18:]) != machines[arch] {
		return nil, fmt.Errorf("%s is no program for %s", path, arch)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return &packed{data: b.Bytes(), sum: digest(b.Bytes())}, nil
}

// download is a program on its way to an instance; whoever gets it must leave.
type download struct {
	*packed
	leave func()
}

// agent answers with a download.
func (s *Server) agent(ctx context.Context, q question) (any, error) {
	if machines[q.Arch] == 0 {
		return nil, refuse(http.StatusBadRequest, "arch %.40q is neither amd64 nor arm64", q.Arch)
	}
	if err := s.backend.Known(ctx, q.Instance, q.addr); err != nil {
		return nil, notYet(err)
	}
	leave, ok := s.files.enter(q.Instance)
	if !ok {
		return nil, &refusal{status: http.StatusServiceUnavailable, retry: 15 * time.Second, text: "burstd is busy: others fetch the program now", as: "busy"}
	}
	f, err := s.files.get(q.Arch)
	switch {
	case err == nil:
		return download{f, leave}, nil
	case errors.Is(err, os.ErrNotExist):
		err = refuse(http.StatusNotFound, "burstd has no burst-agent for %s: put it on the image, or beside burstd", q.Arch)
	}
	leave()
	return nil, err
}

// send writes a program for as long as the node takes its parts.
func (s *Server) send(w http.ResponseWriter, r *http.Request, f *packed) {
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.Itoa(len(f.data)))
	control, end := http.NewResponseController(w), time.Now().Add(sendTimeout)
	_ = control.SetReadDeadline(end) // nothing more is read: it only must not end the answer
	for rest := f.data; len(rest) > 0; {
		by := time.Now().Add(chunkTimeout)
		if by.After(end) {
			by = end
		}
		part := rest[:min(chunk, len(rest))]
		err := control.SetWriteDeadline(by)
		if err == nil {
			_, err = w.Write(part)
		}
		if err != nil {
			s.log.Debug("burst-agent was not fetched to its end", "addr", r.RemoteAddr, "left", len(rest), "error", err)
			return
		}
		rest = rest[len(part):]
	}
}
