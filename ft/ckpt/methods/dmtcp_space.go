package methods

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// fits says no when the images would not: DMTCP ends an application whose image
// it cannot write. What processes on other hosts need is not known here.
func (s *dmtcpStep) fits(ctx context.Context, into string) error {
	host, err := os.Hostname()
	if err != nil {
		return nil // then no process can be told to be of this host
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
		proc := "/proc/" + strconv.Itoa(pid)
		status, err1 := os.ReadFile(proc + "/status")
		maps, err2 := os.ReadFile(proc + "/maps")
		if err1 != nil || err2 != nil {
			continue // it has ended
		}
		need += imageSize(string(status), string(maps))
	}
	for _, dir := range []string{s.images, into} {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(dir, &fs); err != nil {
			return fmt.Errorf("the room in %s: %w", dir, err)
		}
		if free := int64(min(fs.Bavail, 1<<40)) * fs.Bsize; free < need {
			return fmt.Errorf("no checkpoint is begun, which would end the step: %w", &ckpt.SpaceError{Dir: dir, Need: need, Free: free})
		}
	}
	return nil
}

// imageSize is what a process's image takes at most, in bytes, by its
// /proc/PID/status and maps: what it has in memory and swap of its own, and all
// of the files that it maps, read or not. Each run of pages has a header of a page,
// for which there is an eighth.
func imageSize(status, maps string) int64 {
	const headers = 4 << 20
	var own, files int64
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "RssAnon", "RssShmem", "VmSwap":
			own += int64(countOf(strings.TrimSuffix(strings.TrimSpace(value), " kB"))) << 10
		}
	}
	for line := range strings.Lines(maps) {
		fields := strings.Fields(line) // from-to rwxp offset device inode name
		if len(fields) < 6 || !strings.HasPrefix(fields[5], "/") || fields[5] == "/dev/zero" || strings.Contains(fields[5], "/dmtcpSharedArea.") {
			continue // of no file, or not written
		}
		from, to, _ := strings.Cut(fields[0], "-")
		a, err1 := strconv.ParseUint(from, 16, 48)
		b, err2 := strconv.ParseUint(to, 16, 48)
		if err1 == nil && err2 == nil && b > a {
			files += int64(b - a)
		}
	}
	return own + own/8 + files + headers
}
