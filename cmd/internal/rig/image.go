package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// Image is what a container's image is to have of this host's own files: programs, the
// libraries that they load, and an MPI's plugins. No network is needed.
type Image struct {
	// Files are files and folders of this host, where they have them and with the
	// libraries that they load.
	Files []string
	// Put are files that get another name there, by that name.
	Put map[string]string
}

// everyImage is what all have: a shell and what a tool writes its own files over.
var everyImage = []string{"/bin/sh", "/usr/bin/env", "/usr/bin/true", "/etc/nsswitch.conf", "/etc/ld.so.conf"}

// OpenMPI are the files of this host's Open MPI that no program is linked with: plugins and
// their settings, and those of its PMIx. There are none where it has none.
func OpenMPI() []string {
	return globbed("/usr/lib/*/openmpi/lib/openmpi3", "/usr/lib/*/openmpi/lib/openmpi", "/usr/share/openmpi", "/etc/openmpi", "/usr/lib/*/pmix*/lib/pmix", "/usr/lib/*/pmix*/share", "/usr/share/pmix")
}

func globbed(patterns ...string) (all []string) {
	for _, p := range patterns {
		names, _ := filepath.Glob(p) // the patterns are right
		all = append(all, names...)
	}
	return all
}

// Make makes the image in dir, which is not there yet.
func (i Image) Make(ctx context.Context, dir string) error {
	for _, top := range []string{"etc", "tmp", "proc", "sys", "dev", "root", "home", "var/tmp", "usr/bin", "usr/lib"} {
		if err := os.MkdirAll(filepath.Join(dir, top), 0o755); err != nil {
			return err
		}
	}
	// As on a host whose /usr has all of it, whatever this one's is like.
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr", link), 0o755), os.Symlink("usr/"+link, filepath.Join(dir, link))); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	m := imageMaker{ctx: ctx, dir: dir}
	for _, f := range slices.Concat(everyImage, i.Files) {
		if err := m.add(f); err != nil {
			return err
		}
	}
	for to, from := range i.Put {
		if err := m.put(from, to); err != nil {
			return err
		}
	}
	if out, err := exec.CommandContext(ctx, "/sbin/ldconfig", "-r", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("ldconfig: %w: %s", err, out)
	}
	return nil
}

type imageMaker struct {
	ctx  context.Context
	dir  string
	have []string
}

// add copies a file, or all of a folder, to where this host has it.
func (m *imageMaker) add(path string) error {
	return filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p == path:
			return nil // not every host has all of it
		case err != nil || e.IsDir():
			return err
		}
		return m.put(p, p)
	})
}

// put copies a file with what it loads.
func (m *imageMaker) put(from, to string) error {
	if slices.Contains(m.have, to) {
		return nil
	}
	m.have = append(m.have, to)
	if err := copyThrough(from, filepath.Join(m.dir, to)); err != nil {
		return err
	}
	// What is no program loads nothing, and ldd says so by its exit code.
	out, err := exec.CommandContext(m.ctx, "ldd", from).Output()
	if m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	if err != nil {
		return nil
	}
	for _, lib := range libraries(string(out)) {
		if slices.Contains(m.have, lib) {
			continue
		}
		m.have = append(m.have, lib)
		if err := copyThrough(lib, filepath.Join(m.dir, lib)); err != nil {
			return err
		}
	}
	return nil
}

var library = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// libraries reads what ldd prints.
func libraries(out string) (all []string) {
	for _, m := range library.FindAllStringSubmatch(out, -1) {
		all = append(all, m[1])
	}
	return all
}

// copyThrough copies what a file is, through links.
func copyThrough(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, st.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
