package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
)

// Files of an instance's folder.
const (
	instanceFile  = "instance.json"
	lockFile      = "lock"
	machineFile   = "machine.json"
	nodeFile      = "node"
	noticeFile    = "notice.json"
	ackFile       = "ack"
	terminateFile = "terminate"
	endedFile     = "ended"
	logFile       = "machine.log"
)

// validID keeps ids that come from elsewhere from being paths.
var validID = regexp.MustCompile(`^i-[0-9a-f]{10}$`)

// store is the folder of all instances.
type store struct{ dir string }

// record is an instance.json: all that the machine must know.
type record struct {
	ID       string         `json:"id"`
	Token    string         `json:"token"`
	Cluster  string         `json:"cluster"`
	Pool     string         `json:"pool"`
	Offering cloud.Offering `json:"offering"`
	Launched time.Time      `json:"launched"`
	Addr     string         `json:"addr"`
	Hostname string         `json:"hostname,omitempty"`
	Conf     string         `json:"conf"`
	Slurmd   string         `json:"slurmd,omitempty"`
	Boot     string         `json:"boot,omitempty"` // delay, as time.ParseDuration reads it
	Network  *network       `json:"network,omitempty"`
}

// launch is a file of launches/: which ids a token got.
type launch struct {
	Request cloud.LaunchRequest `json:"request"`
	IDs     []string            `json:"ids"`
}

// end is an instance's file "ended".
type end struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
}

func (s store) make() error {
	for _, d := range []string{"instances", "launches", "notices", "control"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o755); err != nil {
			return fmt.Errorf("making the folder of local instances: %w", err)
		}
	}
	return nil
}

func (s store) path(id, file string) string { return filepath.Join(s.dir, "instances", id, file) }

func (s store) launchPath(token string) string {
	sum := sha256.Sum256([]byte(token))
	return filepath.Join(s.dir, "launches", hex.EncodeToString(sum[:12])+".json")
}

// noticePath is for one notice of each instance, and one of its end beside it.
func (s store) noticePath(n cloud.Notice) string {
	name := n.Instance + ".json"
	if n.Kind == cloud.StateChange {
		name = n.Instance + endSuffix
	}
	return filepath.Join(s.dir, "notices", name)
}

const endSuffix = ".end.json" // of the notices of ends

// ids lists the instances that have a folder.
func (s store) ids() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "instances"))
	if err != nil {
		return nil, fmt.Errorf("reading the local instances: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if validID.MatchString(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// record reads an instance; ok is false if it is gone or was never there.
func (s store) record(id string) (r record, ok bool, err error) {
	if !validID.MatchString(id) {
		return r, false, nil
	}
	path := s.path(id, instanceFile)
	ok, err = readJSON(path, &r)
	if err == nil && ok && (r.ID != id || r.Token == "" || r.Cluster == "") {
		err = fmt.Errorf("reading %s: it is not of instance %s, or lacks its token or cluster", path, id)
	}
	return r, ok, err
}

// has says whether the instance has the file.
func (s store) has(id, file string) (bool, error) {
	if !validID.MatchString(id) {
		return false, nil
	}
	_, err := os.Stat(s.path(id, file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// node reads which node the instance is, "" if that is not known yet.
func (s store) node(id string) (string, error) {
	path := s.path(id, nodeFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	node := strings.TrimSpace(string(data))
	if node == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return node, nil
}

// terminate marks the instance: its machine ends at once, or never starts.
// It is no error that the instance is gone or was never there.
func (s store) terminate(id, reason string) error {
	if ended, err := s.has(id, endedFile); err != nil || ended {
		return err
	}
	if known, err := s.has(id, instanceFile); err != nil || !known {
		return err
	}
	_, err := createOnce(s.path(id, terminateFile), []byte(reason+"\n"))
	return err
}

// lock takes the store's lock, which another process may hold, until unlock.
func (s store) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the local instances: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// readJSON decodes a file; ok is false if there is none.
func readJSON(path string, v any) (ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("reading %s: %w", path, err)
	}
	return true, nil
}

// writeJSON replaces a file, so that a reader, also one after a power cut,
// sees the old or the new one.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := writeTemp(path, append(data, '\n'))
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// createOnce writes a file unless it exists; the first writer wins.
func createOnce(path string, data []byte) (created bool, err error) {
	if _, err := os.Stat(path); err == nil {
		return false, nil
	}
	tmp, err := writeTemp(path, data)
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return false, err
	}
	return true, syncDir(filepath.Dir(path))
}

func writeTemp(path string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	return f.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
