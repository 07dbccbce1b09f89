package local

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watcher tells that something in a folder may have changed: at once where
// the kernel grants an inotify instance, else at the next tick.
type watcher struct {
	c    <-chan struct{}
	stop func()
}

const (
	safetyTick = time.Second           // beside inotify: the folder itself may be gone
	pollTick   = 10 * time.Millisecond // without inotify, whose instances are few per user
)

// watch begins to watch dir. What changed before is not told.
func watch(dir string) watcher {
	c, done := make(chan struct{}, 1), make(chan struct{})
	tell := func() {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	tick := safetyTick
	events, err := inotify(dir)
	if err != nil {
		tick = pollTick
	} else {
		go func() {
			buf := make([]byte, 4096)
			for {
				if _, err := events.Read(buf); err != nil {
					return
				}
				tell()
			}
		}()
	}
	go func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				tell()
			case <-done:
				return
			}
		}
	}()
	return watcher{c, func() {
		close(done)
		if events != nil {
			events.Close()
		}
	}}
}

func inotify(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "inotify "+dir)
	mask := uint32(unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_DELETE | unix.IN_DELETE_SELF)
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
