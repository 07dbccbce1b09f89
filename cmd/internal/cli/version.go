package cli

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// What the linker is told of a build, by the Makefile and by packages.sh. All of it follows from
// the sources: the same commit gives the same program.
var (
	// Version is what the build is called: git's description of it.
	Version = "dev"
	// Commit is the commit's full hash, with "-dirty" behind it where files were changed since;
	// empty: not known.
	Commit = ""
	// Epoch is SOURCE_DATE_EPOCH, or else the commit's time, in seconds since 1970; empty: not known.
	Epoch = ""
)

// Build is what a program says of its own build.
type Build struct {
	Version  string    `json:"version"`
	Commit   string    `json:"commit,omitempty"`
	Modified bool      `json:"modified"` // the sources are not those of the commit
	Date     time.Time `json:"date,omitzero"`
	Go       string    `json:"go"`
	CGO      bool      `json:"cgo"`
	Platform string    `json:"platform"` // "linux/amd64"
}

// ThisBuild is what the linker and go have written into this program.
func ThisBuild() Build {
	b := Build{Version: Version, Commit: Commit, Go: runtime.Version(), CGO: true, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	b.Commit, b.Modified = strings.CutSuffix(b.Commit, "-dirty")
	if n, err := strconv.ParseInt(Epoch, 10, 64); err == nil {
		b.Date = time.Unix(n, 0).UTC()
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	// go notes of the repository what -buildvcs=false has it leave out.
	for _, s := range info.Settings {
		switch {
		case s.Key == "CGO_ENABLED":
			b.CGO = s.Value != "0"
		case Commit == "" && s.Key == "vcs.revision":
			b.Commit = s.Value
		case Commit == "" && s.Key == "vcs.modified":
			b.Modified = s.Value == "true"
		case Epoch == "" && s.Key == "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.Date = t.UTC()
			}
		}
	}
	return b
}
