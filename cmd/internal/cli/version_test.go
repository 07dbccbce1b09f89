package cli

import (
	"runtime"
	"testing"
	"time"
)

func TestThisBuild(t *testing.T) {
	defer func(v, c, e string) { Version, Commit, Epoch = v, c, e }(Version, Commit, Epoch)
	Version, Commit, Epoch = "v1.2.0-dirty", "0123456789abcdef0123456789abcdef01234567-dirty", "1795395723"
	b := ThisBuild()
	if b.Version != Version || b.Commit != "0123456789abcdef0123456789abcdef01234567" || !b.Modified {
		t.Errorf("%+v", b)
	}
	if want := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC); !b.Date.Equal(want) || b.Date.Location() != time.UTC {
		t.Errorf("the date is %v, want %v", b.Date, want)
	}
	if b.Go != runtime.Version() || b.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("%+v", b)
	}
	Commit, Epoch = "0123456789abcdef0123456789abcdef01234567", "soon"
	if b := ThisBuild(); b.Modified || !b.Date.IsZero() {
		t.Errorf("%+v", b)
	}
}
