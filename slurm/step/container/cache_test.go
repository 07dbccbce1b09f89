package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// killedName is in the environment of a test that is to be killed while it copies: the
// folder of its cache.
const killedName = "CONTAINER_TEST_KILLED"

func fileImage(t *testing.T, path string) Image {
	t.Helper()
	i, err := Identify(Ref{Kind: File, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestOneFetches: of many that want an image one copies, and all get it whole.
func TestOneFetches(t *testing.T) {
	i := fileImage(t, fakeSIF(t, t.TempDir(), "a.sif", strings.Repeat("x", 1<<20)))
	c := Cache{Dir: filepath.Join(t.TempDir(), "images"), Max: DefaultMax}
	var fetches atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			path, err := c.Ready(t.Context(), i, func(ctx context.Context, part string) error {
				fetches.Add(1)
				return Fetch(i, Tool{}, nil)(ctx, part)
			})
			if st, serr := os.Stat(path); err != nil || serr != nil || st.Size() != i.Size {
				t.Errorf("%s: %v, %v", path, err, serr)
			}
		})
	}
	wg.Wait()
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d copies were made", n)
	}
}

// TestAKilledCopyIsNone: what a process that was killed by SIGKILL has left is not taken
// for an image, and does not keep the next one from making it.
func TestAKilledCopyIsNone(t *testing.T) {
	if dir := os.Getenv(killedName); dir != "" {
		c := Cache{Dir: dir, Max: DefaultMax}
		_, err := c.Ready(t.Context(), Image{Ref: Ref{Kind: File, Path: "/x"}, Key: "sif-k"}, func(_ context.Context, part string) error {
			if err := os.WriteFile(part, make([]byte, 4096), 0o600); err != nil {
				return err
			}
			fmt.Println("half written")
			select {}
		})
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "images")
	cmd := exec.Command(os.Args[0], "-test.run=^TestAKilledCopyIsNone$")
	cmd.Env = append(os.Environ(), killedName+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 100)); err != nil || n == 0 {
		t.Error("it did not come so far:", err)
	}
	c := Cache{Dir: dir, Max: DefaultMax}
	short, cancel := context.WithTimeout(t.Context(), 3*lockPause)
	defer cancel()
	if _, err := c.Ready(short, Image{Key: "sif-k"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it copies another has: %v", err)
	}
	if err := errors.Join(cmd.Process.Kill(), ignored(cmd.Wait())); err != nil {
		t.Fatal(err)
	}
	if c.Has("sif-k") {
		t.Fatal("half of an image is taken for one")
	}
	i := fileImage(t, fakeSIF(t, t.TempDir(), "a.sif", "whole"))
	i.Key = "sif-k"
	fill := func(_ context.Context, part string) error {
		text, err := os.ReadFile(i.Path)
		return errors.Join(err, os.WriteFile(part, text, 0o600))
	}
	if len(c.works("sif-k")) != 1 {
		t.Fatal("the killed process has left nothing")
	}
	path, err := c.Ready(t.Context(), i, fill)
	if st, serr := os.Stat(path); err != nil || serr != nil || st.Size() != i.Size {
		t.Errorf("after it: %v, %v", err, serr)
	}
	if left := c.works("sif-k"); len(left) > 0 {
		t.Errorf("%v is left of it", left)
	}
}

// ignored is for the end of a process that was killed.
func ignored(error) error { return nil }

// TestAFailedFetch leaves nothing, and what a tool wrote that is no image is none.
func TestAFailedFetch(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "images"), Max: DefaultMax}
	i := Image{Ref: Ref{Kind: File, Path: "/x"}, Key: "sif-k"}
	for name, fill := range map[string]Fill{
		"an error": func(_ context.Context, part string) error {
			return errors.Join(os.WriteFile(part, []byte("half"), 0o600), errors.New("the disk is full"))
		},
		"no image": func(_ context.Context, part string) error { return os.WriteFile(part, []byte("sorry"), 0o600) },
	} {
		_, err := c.Ready(t.Context(), i, fill)
		left, _ := filepath.Glob(filepath.Join(c.Dir, "*.[st]*"))
		if err == nil || len(left) > 0 {
			t.Errorf("%s: %v, and %v is left", name, err, left)
		}
	}
}

// TestAChangedFile: one that is written anew is refused, when it has been for some seconds.
func TestAChangedFile(t *testing.T) {
	path := fakeSIF(t, t.TempDir(), "a.sif", "one")
	i := fileImage(t, path)
	if err := os.WriteFile(path, append(make([]byte, magicAt), sifMagic+strings.Repeat("y", 200)...), 0o644); err != nil {
		t.Fatal(err)
	}
	c := Cache{Dir: filepath.Join(t.TempDir(), "images"), Max: DefaultMax}
	synctest.Test(t, func(t *testing.T) {
		if _, err := c.Ready(t.Context(), i, Fetch(i, Tool{}, nil)); err == nil || !strings.Contains(err.Error(), "is another file here") || c.Has(i.Key) {
			t.Errorf("%v", err)
		}
	})
}

// TestEvict: those used longest ago go, with their notes; not those of the last hour, nor
// one that is being fetched; and what killed processes have left goes.
func TestEvict(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "images"), Max: 2500}
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := func(name string, size int, age time.Duration) {
		at := time.Now().Add(-age)
		path := filepath.Join(c.Dir, name)
		if err := errors.Join(os.WriteFile(path, make([]byte, size), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	file("old.sif", 1000, 5*time.Hour)
	file("old.00.json", 10, 5*time.Hour)
	file("held.sif", 1000, 4*time.Hour)
	file("mid.sif", 1000, 3*time.Hour)
	file("new.sif", 1000, 2*time.Hour)
	file("now.sif", 1000, time.Minute)
	for name, mode := range map[string]os.FileMode{"dead.1.tmp/build-temp-1/rootfs/etc": 0o500, "held.2.tmp/build-temp-2": 0o700} {
		dir := filepath.Join(c.Dir, name)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1500), 0o600), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
	}
	held, err := tryLock(filepath.Join(c.Dir, "held.lock"))
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	defer held.Close()
	c.evict("now", 2500)
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "held.2.tmp held.lock held.sif now.sif" {
		t.Errorf("left: %s", got)
	}
	c.evict("", 0)
	if !c.Has("now") {
		t.Error("one that was used a minute ago is deleted")
	}
}

// TestOwned: a folder that others may write to is not used.
func TestOwned(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "images"), Max: DefaultMax}
	if err := errors.Join(os.Mkdir(c.Dir, 0o700), os.Chmod(c.Dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	i := fileImage(t, fakeSIF(t, t.TempDir(), "a.sif", "x"))
	if _, err := c.Ready(t.Context(), i, Fetch(i, Tool{}, nil)); err == nil || !strings.Contains(err.Error(), "others can write") {
		t.Errorf("%v", err)
	}
	link := Cache{Dir: filepath.Join(t.TempDir(), "link"), Max: DefaultMax}
	if err := errors.Join(os.Chmod(c.Dir, 0o700), os.Symlink(c.Dir, link.Dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := link.Ready(t.Context(), i, Fetch(i, Tool{}, nil)); err != nil {
		t.Errorf("a link of the user's own: %v", err)
	}
	file := Cache{Dir: i.Path}
	if err := file.owned(); err == nil || !strings.Contains(err.Error(), "is no folder") {
		t.Errorf("a file: %v", err)
	}
}

// TestAFullDisk: where the disk was too small for a pull, old images go, and it is tried once
// more; the error says where else images can be.
func TestAFullDisk(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "images"), Max: DefaultMax}
	i := fileImage(t, fakeSIF(t, t.TempDir(), "a.sif", "x"))
	old := c.Path("docker-old")
	fill := func(ctx context.Context, part string) error {
		if c.Has("docker-old") {
			return errors.New("pulling x by apptainer: exit status 255: write /x: no space left on device")
		}
		return duplicate(ctx, i, part)
	}
	at := time.Now().Add(-2 * restFor)
	if err := errors.Join(os.Mkdir(c.Dir, 0o700), os.WriteFile(old, []byte("old"), 0o600), os.Chtimes(old, at, at)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ready(t.Context(), i, fill); err != nil || !c.Has(i.Key) || c.Has("docker-old") {
		t.Errorf("%v", err)
	}
	calls := 0
	_, err := c.Ready(t.Context(), Image{Key: "sif-other"}, func(context.Context, string) error {
		calls++
		return fmt.Errorf("writing: %w", syscall.ENOSPC)
	})
	if calls != 2 || err == nil || !strings.Contains(err.Error(), "BURST_CONTAINER_CACHE=FOLDER") {
		t.Errorf("after %d tries: %v", calls, err)
	}
}
