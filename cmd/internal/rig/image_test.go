package rig

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestImageLibraries(t *testing.T) {
	const out = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibmpi.so.40 => /lib/x86_64-linux-gnu/libmpi.so.40 (0x00007f)\n\tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
	if got := libraries(out); !slices.Equal(got, []string{"/lib/x86_64-linux-gnu/libmpi.so.40", "/lib64/ld-linux-x86-64.so.2"}) {
		t.Errorf("%q", got)
	}
}

// TestImage: a program of the image finds its libraries there, by the image's own loader.
func TestImage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "image")
	if err := (Image{Put: map[string]string{"/opt/it": "/bin/cat"}}).Make(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	loaders, err := filepath.Glob(dir + "/lib*/ld-linux*")
	if err != nil || len(loaders) == 0 {
		t.Fatalf("no loader in the image: %v", err)
	}
	libs, _ := filepath.Glob(dir + "/lib/*-linux-gnu") // not on every host
	out, err := exec.CommandContext(t.Context(), loaders[0], "--inhibit-cache", "--library-path", filepath.Join(dir, "lib64")+":"+append(libs, "/")[0], dir+"/opt/it", dir+"/etc/group").CombinedOutput()
	if err != nil || string(out) != "root:x:0:\n" {
		t.Errorf("%v: %s", err, out)
	}
}
