package steprecord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// lock waits for the job's lock. On a file system without locks it is done without.
func (b Book) lock(ctx context.Context, root *os.Root) (*os.File, error) {
	f, err := root.OpenFile(".steps.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	for {
		err := TryLock(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || !pause(ctx, 20*time.Millisecond) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
		}
	}
}

// TryLock takes a file's lock for as long as it is open, where there are locks;
// EWOULDBLOCK: another has it.
func TryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EINVAL):
			return nil
		}
		return err
	}
}

// lockTime is how long another step of the job may hold the lock: it writes a
// small file.
const lockTime = 30 * time.Second

// pause waits for about d; false: ctx has ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
