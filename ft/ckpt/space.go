package ckpt

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
)

// SpaceError says that a checkpoint folder has no room. What is in it is untouched.
type SpaceError struct {
	Dir  string
	Need int64 // bytes, with the reserve
	Free int64 // bytes that this user may write; -1: not known
	Err  error // what failed for it: ENOSPC, EDQUOT, a tool; nil: nothing was written yet
}

func (e *SpaceError) Error() string {
	free := "an unknown number of bytes"
	if e.Free >= 0 {
		free = inUnits(e.Free)
	}
	why := ""
	switch {
	case errors.Is(e.Err, syscall.EDQUOT):
		why = ": the quota is used up"
	case errors.Is(e.Err, syscall.ENOSPC):
		why = ": the file system is full"
	case e.Err != nil:
		why = fmt.Sprintf(": the file system is full (%v)", e.Err)
	}
	return fmt.Sprintf("checkpoint folder %s%s: %s needed (%d bytes), %s free (%d bytes): make room, or name another folder with dir=",
		e.Dir, why, inUnits(e.Need), e.Need, free, e.Free)
}

func (e *SpaceError) Unwrap() error { return e.Err }

// inUnits writes a number of bytes for people.
func inUnits(n int64) string {
	const k = 1024
	v, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if v < k {
			break
		}
		v, unit = v/k, u
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// space of a file system; -1: it does not say.
type space struct {
	free  int64 // bytes that this user may write
	files int64 // that may be made
}

// freeSpace asks the file system. A user's quota it may not know: a write that
// fails for it becomes the same SpaceError.
func freeSpace(root *os.Root) (space, error) {
	d, err := root.Open(".")
	if err != nil {
		return space{}, err
	}
	defer d.Close()
	var s syscall.Statfs_t
	for {
		err = syscall.Fstatfs(int(d.Fd()), &s)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return space{}, fmt.Errorf("asking for the free space of %s: %w", root.Name(), err)
	}
	a := space{-1, -1}
	if s.Blocks > 0 && s.Bsize > 0 {
		a.free = math.MaxInt64
		if s.Bavail < uint64(math.MaxInt64/s.Bsize) {
			a.free = int64(s.Bavail) * s.Bsize
		}
	}
	if s.Files > 0 {
		a.files = int64(min(s.Ffree, math.MaxInt64))
	}
	return a, nil
}

// room returns a SpaceError if need and the reserve do not fit.
func (f *Folder) room(need int64) error {
	s, err := f.free(f.root)
	if err != nil {
		return err
	}
	want := f.withReserve(need)
	switch {
	case s.free >= 0 && s.free < want:
		return &SpaceError{f.root.Name(), want, s.free, nil}
	case s.files >= 0 && s.files < 16:
		return fmt.Errorf("checkpoint folder %s: the file system has room for %d more files: make room, or name another folder with dir=", f.root.Name(), s.files)
	}
	return nil
}

func (f *Folder) withReserve(need int64) int64 {
	if need > math.MaxInt64-f.o.Reserve {
		return math.MaxInt64
	}
	return max(need, 0) + f.o.Reserve
}

// explain makes ENOSPC and EDQUOT a SpaceError.
func (f *Folder) explain(err error, need int64) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	var have *SpaceError
	if errors.As(err, &have) {
		return err
	}
	free := int64(-1)
	if s, ferr := f.free(f.root); ferr == nil {
		free = s.free
	}
	return &SpaceError{f.root.Name(), f.withReserve(need), free, err}
}
