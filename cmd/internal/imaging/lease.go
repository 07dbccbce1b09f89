package imaging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cloud"
)

// Leases is the folder of the builders' files, in burstd's state folder.
type Leases string

// LeasesIn is the one of a state folder.
func LeasesIn(state string) Leases { return Leases(filepath.Join(state, "builders")) }

// lease is the hold of this process on a builder.
type lease struct {
	path string
	file *os.File
}

// plain are the tokens that may be names of files.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`) })

func (l Leases) path(token string) string { return filepath.Join(string(l), token) }

// Take holds a builder that is not asked for yet.
func (l Leases) Take(token string) (*lease, error) {
	if !plain().MatchString(token) {
		return nil, fmt.Errorf("%q is no builder's token", token)
	}
	if err := os.Mkdir(string(l), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the folder of builders in burstd's state folder: %w", err)
	}
	l.sweep(time.Now())
	f, err := os.OpenFile(l.path(token), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("writing down in burstd's state folder that an instance is asked for: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", l.path(token), err)
	}
	return &lease{l.path(token), f}, nil
}

// begin says in the file that an image is begun, of which nobody knows whether it is whole
// should this process die.
func (l *lease) begin() error {
	_, err := l.file.WriteAt([]byte(begun), 0)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing down in burstd's state folder that an image is begun: %w", err)
	}
	return nil
}

const begun = "an image is begun\n"

// settle says that the image is whole, or removed.
func (l *lease) settle() error {
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("writing down in burstd's state folder that the image is settled: %w", err)
	}
	return nil
}

// Unfinished says whether the image of a builder's token was begun by a process that died
// before it knew that it is whole. The cloud has it as available all the same, if there was a disk to
// read; burstd may have ended the instance meanwhile.
func (l Leases) Unfinished(token string) (bool, error) {
	if _, ours := cloud.BuilderUntil(token); !ours || !plain().MatchString(token) {
		return false, nil
	}
	f, err := os.Open(l.path(token))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading in burstd's state folder whether an image was finished: %w", err)
	}
	defer f.Close()
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return false, nil // it is being made
	}
	info, err := f.Stat()
	return err == nil && info.Size() > 0, err
}

// AllUnfinished are the tokens of the images that are so.
func (l Leases) AllUnfinished() (tokens []string, err error) {
	entries, err := os.ReadDir(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading in burstd's state folder whether images were finished: %w", err)
	}
	for _, e := range entries {
		is, err := l.Unfinished(e.Name())
		if err != nil {
			return nil, err
		}
		if is {
			tokens = append(tokens, e.Name())
		}
	}
	return tokens, nil
}

// end gives the builder up for good: it is gone.
func (l *lease) end() error {
	if err := os.Remove(l.path); err != nil {
		return fmt.Errorf("removing the file of a builder that is gone: %w", err)
	}
	return nil
}

// drop lets go of the builder, as the death of the process does.
func (l *lease) drop() { l.file.Close() }

// Held says whether somebody is at work on the instance of a builder's token. What
// cannot be told is held until the token's time comes.
func (l Leases) Held(token string, now time.Time) bool {
	until, ours := cloud.BuilderUntil(token)
	if !ours || !now.Before(until) || !plain().MatchString(token) {
		return false
	}
	f, err := os.Open(l.path(token))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		return true
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// sweep removes the files of builders whose time has long come, but not of images that are
// not finished, which may be there for years. What cannot be removed stays: it does no harm.
func (l Leases) sweep(now time.Time) {
	entries, err := os.ReadDir(string(l))
	if err != nil {
		return
	}
	for _, e := range entries {
		if until, ours := cloud.BuilderUntil(e.Name()); ours && now.Sub(until) > 24*time.Hour {
			if info, err := e.Info(); err != nil || info.Size() > 0 {
				continue
			}
			_ = os.Remove(l.path(e.Name()))
		}
	}
}
