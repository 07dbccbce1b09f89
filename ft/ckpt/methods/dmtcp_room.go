package methods

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// perImage is what an image has beside the process's memory: DMTCP's libraries.
const perImage = 32 << 20

// room says no when the images would not fit: DMTCP ends an application whose
// image it cannot write. What processes on other hosts need is not known here.
func (s *dmtcpStep) room(ctx context.Context, into string) error {
	host, err := os.Hostname()
	if err != nil {
		return nil
	}
	_, out, err := s.coordinator.command(ctx, "-l")
	if err != nil {
		return err
	}
	pids, all := parseClients(out, host)
	if !all {
		return nil
	}
	var need int64
	for _, pid := range pids {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue // it has ended
		}
		need += memoryOf(string(status)) + perImage
	}
	for _, dir := range []string{s.images, into} {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(dir, &fs); err != nil {
			return fmt.Errorf("the room in %s: %w", dir, err)
		}
		if free := int64(min(fs.Bavail, 1<<40)) * fs.Bsize; free < need {
			return fmt.Errorf("%s has %d MB free and %d processes need up to %d MB: no checkpoint is begun, which would end the step", dir, free>>20, len(pids), need>>20)
		}
	}
	return nil
}

// memoryOf is the size in bytes of what a process has in memory and in swap, by
// its /proc/PID/status.
func memoryOf(status string) int64 {
	var sum int64
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		if key != "VmRSS" && key != "VmSwap" {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err == nil && kb > 0 && kb < 1<<40 {
			sum += kb << 10
		}
	}
	return sum
}

// clean empties dir.
func clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// move puts a file or folder elsewhere; between file systems by a copy, as long
// as ctx allows.
func move(ctx context.Context, from, to string) error {
	err := os.Rename(from, to)
	if link, ok := err.(*os.LinkError); !ok || link.Err != syscall.EXDEV {
		return err
	}
	err = filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o700)
		}
		return copyFile(ctx, path, filepath.Join(to, rel))
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(from)
}

func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(out, in, 16<<20)
		}
	}
	if err == io.EOF {
		err = nil
	}
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}
