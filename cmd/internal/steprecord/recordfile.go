package steprecord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// maxRecord is more bytes than the records of a job have.
	maxRecord = 64 << 20
	// mostRecords is more than a job's attempts: Slurm's default is 5 requeues.
	mostRecords = 1000
	mostNames   = 100_000 // in a job's folder
	// oldPrefix begins the names of what an earlier job of the same id has left, the
	// folders of its steps too.
	oldPrefix = "old-"
)

// readRecord reads a record of at most so many bytes, and says how many it has.
func readRecord(root *os.Root, name string, most int64) (r Record, size int64, err error) {
	text, err := readWhole(root, name, most)
	if errors.Is(err, fs.ErrNotExist) {
		return r, 0, err
	}
	if err != nil {
		return r, 0, fmt.Errorf("%s is no record: %w", name, err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, 0, fmt.Errorf("%s: %w: delete it, and steps that --once had recorded run again", path.Join(root.Name(), name), err)
	}
	return r, int64(len(text)), nil
}

// readWhole reads a file whose place another may take at any moment: opened just then it
// is not the one that was looked at, and is refused.
func readWhole(root *os.Root, name string, most int64) (text []byte, err error) {
	const tries = 20
	for range tries {
		text, err = ckpt.ReadOwn(root, name, most)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
		if info, lerr := root.Lstat(name); lerr != nil || !info.Mode().IsRegular() {
			return nil, err
		}
	}
	return nil, err
}

// putAway renames an earlier job's record, so that its word still counts when it is
// asked what may be deleted.
func putAway(root *os.Root, name string) error {
	err := root.Rename(name, oldPrefix+time.Now().UTC().Format("20060102T150405.000")+"-"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// recordsIn are the attempts that have a record in a job's folder, and whether an
// earlier job has left something there.
func recordsIn(root *os.Root) (attempts []int, earlier bool, err error) {
	d, err := root.OpenFile(".", os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	names, err := d.Readdirnames(mostNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if len(names) == mostNames {
		return nil, false, fmt.Errorf("%s has %d names or more", root.Name(), mostNames)
	}
	for _, name := range names {
		number, ok := strings.CutPrefix(strings.TrimSuffix(name, ".json"), "steps-")
		if n, err := strconv.Atoi(number); ok && err == nil && name == (Book{}).fileOf(n) {
			attempts = append(attempts, n)
		}
		earlier = earlier || strings.HasPrefix(name, oldPrefix)
	}
	if len(attempts) > mostRecords {
		return nil, false, fmt.Errorf("%s has %d records, and at most %d are read", root.Name(), len(attempts), mostRecords)
	}
	return attempts, earlier, nil
}

// writeWhole writes a file that is whole or as it was.
func writeWhole(root *os.Root, name string, text []byte) error {
	temp := fmt.Sprintf(".%s-%d", name, os.Getpid())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Sum is of a script; slurmctld and slurmd need not agree on how it ends.
func Sum(text string) string {
	s := sha256.Sum256([]byte(strings.TrimRight(text, "\x00\r\n")))
	return hex.EncodeToString(s[:])
}
