package steprecord

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestBallast: where all is full, an attempt that sheds the ballast is recorded.
func TestBallast(t *testing.T) {
	dir := t.TempDir()
	b := Book{Dir: dir, Cluster: "c", Job: "17", Script: "#!/bin/sh\n"}
	if err := b.shed(syscall.ENOSPC); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("without ballast: %v", err)
	}
	did(t, b, "./a", "", false)
	b.load()
	if st, err := os.Stat(filepath.Join(dir, "job-17", ballastName)); err != nil || st.Size() != ballastSize {
		t.Fatalf("%v, %v", st, err)
	}
	if err := b.shed(syscall.ENOSPC); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "job-17", ballastName)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the ballast is still there")
	}
	if os.Getuid() != 0 {
		t.Log("A FULL FILE SYSTEM IS NOT TESTED: mounting a tmpfs needs root")
		return
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	did(t, b, "./a", "", false)
	b.load()
	fill(t, filepath.Join(dir, "filler"))
	b.Attempt = 1
	if full := b.Change(t.Context(), func(*Record) error { return nil }); !isFull(full) {
		t.Fatalf("in a full folder: %v", full)
	}
	var was Step
	claim := func(r *Record) error {
		_, was = r.Claim(Step{Args: []string{"./a"}, Program: "./a"}, "")
		return nil
	}
	if err := b.Open(t.Context(), claim); err != nil || was.Name != "0" {
		t.Errorf("%+v, %v", was, err)
	}
	if b.load(); isThere(filepath.Join(dir, "job-17", ballastName)) {
		t.Error("ballast was taken in a folder that is nearly full")
	}
}

func isThere(path string) bool { _, err := os.Stat(path); return err == nil }

// fill writes until nothing is free.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !isFull(err) {
		t.Fatal(err)
	}
}
