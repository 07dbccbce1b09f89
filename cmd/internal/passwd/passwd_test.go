package passwd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// directory has a getent that knows ada, as one of LDAP does, and notes who was asked for.
func directory(t *testing.T) (asked func() []string) {
	dir := t.TempDir()
	script := `#!/bin/sh
echo "$*" >> ` + dir + `/asked
case "$3" in
4242000|ada) echo "ada:*:4242000:4242000:Ada:/home/ada:/bin/sh" ;;
4242001|x) echo "ada:*:4242000:4242000:Ada:/home/ada:/bin/sh" ;;
4242002) echo "no user" ;;
4242003) exec sleep 60 ;;
*) exit 2 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() []string {
		text, _ := os.ReadFile(filepath.Join(dir, "asked"))
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
}

func TestUsersOfADirectory(t *testing.T) {
	directory(t)
	if u, err := ByName(t.Context(), "ada"); err != nil || u.Uid != "4242000" || u.Gid != "4242000" {
		t.Error(u, err)
	}
	if u, err := ByID(t.Context(), 4242000); err != nil || u.Username != "ada" {
		t.Error(u, err)
	}
	if u, err := ByID(t.Context(), 0); err != nil || u.Username != "root" {
		t.Error(u, err)
	}
	for _, name := range []string{"x", "y", ""} {
		if u, err := ByName(t.Context(), name); err == nil {
			t.Errorf("%q: %+v", name, u)
		}
	}
	for _, uid := range []int{4242001, 4242002, 4242009} {
		if u, err := ByID(t.Context(), uid); err == nil {
			t.Errorf("%d: %+v", uid, u)
		}
	}
}

func TestNames(t *testing.T) {
	asked := directory(t)
	var names Names
	defer func(d time.Duration) { patience = d }(patience)
	patience = 300 * time.Millisecond
	for range 3 {
		if got := names.Of(t.Context(), 4242000); got != "ada" {
			t.Error(got)
		}
		if got := names.Of(t.Context(), 4242009); got != "" {
			t.Error(got)
		}
	}
	if all := asked(); len(all) != 2 || all[0] != "passwd -- 4242000" {
		t.Errorf("%q", all)
	}
	names.have[4242000] = found{"eve", time.Now().Add(-time.Second)}
	if got := names.Of(t.Context(), 4242000); got != "ada" {
		t.Errorf("an old name is kept: %s", got)
	}
	begin := time.Now()
	if got := names.Of(t.Context(), 4242003); got != "" || time.Since(begin) > 30*time.Second {
		t.Errorf("%q after %s", got, time.Since(begin))
	}
}
