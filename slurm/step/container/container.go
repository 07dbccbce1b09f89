// Package container runs the ranks of a step in an Apptainer or Singularity image: which
// image is meant, and which one it is now (Parse, Identify, Resolve); a copy of it on the
// node's disk, made once (Cache); and the command line that runs a program in it (Exec).
// The host's srun starts the ranks, each in a container of its own.
package container

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Kind is what an image is.
type Kind string

const (
	File   Kind = "file"   // a SIF file, or a bare squashfs
	Folder Kind = "folder" // a sandbox: the image's files as they are
	Docker Kind = "docker" // layers in a registry, which are made into a SIF file
	ORAS   Kind = "oras"   // a SIF file in a registry
)

// Ref is an image as its user names it.
type Ref struct {
	Kind Kind
	Path string // of a File or Folder, absolute
	Host string // of the registry, with its port
	Repo string // in the registry: library/debian
	Tag  string // or Digest: one of both is set
	// Digest is "sha256:" and 64 hexadecimal digits.
	Digest string
}

// Remote says whether the image is in a registry.
func (r Ref) Remote() bool { return r.Kind == Docker || r.Kind == ORAS }

// String is the image as the tools take it.
func (r Ref) String() string {
	switch {
	case !r.Remote():
		return r.Path
	case r.Digest != "":
		return fmt.Sprintf("%s://%s/%s@%s", r.Kind, r.Host, r.Repo, r.Digest)
	}
	return fmt.Sprintf("%s://%s/%s:%s", r.Kind, r.Host, r.Repo, r.Tag)
}

// refused are what the tools take and what is not run here, with what to do.
var refused = map[string]string{
	"library":        "apptainer pull image.sif %s, and name image.sif",
	"shub":           "apptainer pull image.sif %s, and name image.sif",
	"docker-daemon":  "apptainer build image.sif %s, and name image.sif",
	"docker-archive": "apptainer build image.sif %s, and name image.sif",
	"oci":            "apptainer build image.sif %s, and name image.sif",
	"oci-archive":    "apptainer build image.sif %s, and name image.sif",
	"instance":       "an instance runs on one node only: name its image",
	"http":           "fetch the file, and name it",
	"https":          "fetch the file, and name it",
}

var (
	scheme    = regexp.MustCompile(`^([a-z][a-z0-9-]*):`)
	repoName  = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	tagName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`) })
	digestHex = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	hostName  = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$`)
)

// hub is the registry of names that have none, and hubAPI is where it answers.
const (
	hub    = "docker.io"
	hubAPI = "registry-1.docker.io"
)

// Parse reads an image's name; one of a file is in the folder dir unless it is absolute.
// It looks at nothing: a Folder is a File until Look.
func Parse(text, dir string) (Ref, error) {
	bad := func(format string, args ...any) (Ref, error) {
		return Ref{}, fmt.Errorf("container %.200q: "+format, append([]any{text}, args...)...)
	}
	if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return bad("is no image's name")
	}
	m := scheme.FindStringSubmatch(text)
	if m == nil {
		if !filepath.IsAbs(text) {
			text = filepath.Join(dir, text)
		}
		return Ref{Kind: File, Path: filepath.Clean(text)}, nil
	}
	if hint, ok := refused[m[1]]; ok {
		if strings.Contains(hint, "%s") {
			hint = fmt.Sprintf(hint, text)
		}
		return bad("%s: is not run here: %s", m[1], hint)
	}
	r := Ref{Kind: Kind(m[1])}
	rest, ok := strings.CutPrefix(text, m[1]+"://")
	if !ok || !r.Remote() {
		return bad("is none of a SIF file, a sandbox folder, docker://… and oras://…; a file of this name is ./%s", text)
	}
	rest, r.Digest, _ = strings.Cut(rest, "@")
	if colon := strings.LastIndex(rest, ":"); colon > strings.LastIndex(rest, "/") {
		rest, r.Tag = rest[:colon], rest[colon+1:]
		if !tagName().MatchString(r.Tag) {
			return bad("%q is no tag", r.Tag)
		}
	}
	r.Host, r.Repo, ok = strings.Cut(rest, "/")
	if !ok || !strings.ContainsAny(r.Host, ".:") && r.Host != "localhost" {
		if r.Kind == ORAS {
			return bad("names no registry: write oras://HOST/NAME:TAG")
		}
		r.Host, r.Repo = hub, rest
	}
	if r.Host == hub && !strings.Contains(r.Repo, "/") {
		r.Repo = "library/" + r.Repo
	}
	switch {
	case !hostName.MatchString(r.Host):
		return bad("%q is no registry", r.Host)
	case !repoName.MatchString(r.Repo):
		return bad("%q is no image's name: lower case letters, digits, and . _ - / between them", r.Repo)
	case r.Digest != "" && !digestHex.MatchString(r.Digest):
		return bad("%q is no digest such as sha256:… with 64 digits", r.Digest)
	case r.Digest == "" && r.Tag == "":
		r.Tag = "latest"
	case r.Digest != "":
		r.Tag = "" // the digest says all
	}
	return r, nil
}

// Look finds what a File is. An error says what is wrong with it.
func (r Ref) Look() (Ref, error) {
	if r.Remote() {
		return r, nil
	}
	st, err := os.Stat(r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, fmt.Errorf("container %s: there is no such file or folder", r.Path)
	case err != nil:
		return r, fmt.Errorf("container: %w", err)
	case !st.IsDir():
		return r, nil
	}
	// What a tool would not run either, and says less clearly.
	if entries, err := os.ReadDir(r.Path); err != nil {
		return r, fmt.Errorf("container: %w", err)
	} else if len(entries) == 0 {
		return r, fmt.Errorf("container %s: is an empty folder, no image", r.Path)
	}
	r.Kind = Folder
	return r, nil
}

// IsBundle says whether the folder is an OCI bundle, which srun's own --container takes.
func IsBundle(dir string) bool {
	st, err := os.Stat(filepath.Join(dir, "config.json"))
	return err == nil && st.Mode().IsRegular()
}

// api is the address of the registry's API for the image.
func (r Ref) api(plain bool) *url.URL {
	u := &url.URL{Scheme: "https", Host: r.Host}
	if r.Host == hub {
		u.Host = hubAPI
	}
	if plain {
		u.Scheme = "http"
	}
	which := r.Digest
	if which == "" {
		which = r.Tag
	}
	return u.JoinPath("v2", r.Repo, "manifests", which)
}
