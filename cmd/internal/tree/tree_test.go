package tree

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root     = "../../.." // of the module
	maxLines = 400
)

// source is one Go file; a file of any build tag counts.
type source struct {
	path    string // relative to the module
	pkg     string // package clause
	doc     string
	imports []string
}

// sources reads the Go files that are not tests.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{name, f.Name.Name, f.Doc.Text(), importsOf(t, f)})
	})
	if len(all) < 10 {
		t.Fatalf("%d Go files found in %s: this is not our tree", len(all), root)
	}
	return all
}

func importsOf(t *testing.T, f *ast.File) []string {
	t.Helper()
	var imports []string
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		imports = append(imports, p)
	}
	return imports
}

// walk calls visit for the files of our rooms, with slashes in their names.
func walk(t *testing.T, visit func(name string, text []byte)) {
	t.Helper()
	for _, dir := range []string{"cmd", "slurm", "cloud", "ft", "contrib", "packaging"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if d.Name() == "testdata" {
					return fs.SkipDir
				}
				return nil
			}
			if !slices.Contains([]string{".go", ".c", ".h", ".sh", ".py", ".lua"}, filepath.Ext(name)) {
				return nil
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(rel), text)
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if why := forbids(path.Dir(s.path), i); why != "" {
				t.Errorf("%s imports %s: %s", s.path, i, why)
			}
		}
	}
}

// TestRules shows that the rules catch what they are for.
func TestRules(t *testing.T) {
	tests := []struct {
		from, to string
		allowed  bool
	}{
		{"slurm/hostlist", "fmt", true},
		{"slurm/hostlist", module + "slurm", false},
		{"slurm/directive", module + "slurm/hostlist", false},
		{"slurm/slurmd", module + "cloud", false},
		{"cloud", module + "slurm/hostlist", false},
		{"ft/ckpt", module + "cloud", false},
		{"slurm", module + "slurm/hostlist", true},
		{"slurm", module + "slurm/power", false},
		{"slurm/conf", module + "slurm/hostlist", true},
		{"slurm/conf", module + "cloud", false},
		{"slurm/sandbox", module + "slurm/slurmd", true},
		{"slurm/sandbox", module + "cloud/local", false},
		{"slurm/step", module + "ft/ckpt", false},
		{"slurm/overflow", module + "cloud/price", true},
		{"slurm/overflow", module + "cloud", false},
		{"slurm/power", module + "cloud/fleet", true},
		{"slurm/power", module + "cloud/local", false},
		{"slurm/power", module + "ft", false},
		{"slurm/power", module + "cmd/internal/store", false},
		{"cloud/fleet", module + "cloud", true},
		{"cloud/local", module + "slurm/slurmd", true},
		{"cloud/local", module + "slurm", false},
		{"cloud/aws", module + "slurm/slurmd", false},
		{"cloud/aws", module + "cloud/vultr", false},
		{"cloud/aws/imds", module + "cloud/aws", true},
		{"ft", module + "slurm", true},
		{"ft", module + "ft/notice", true},
		{"ft", module + "slurm/power", false},
		{"ft", module + "cloud/fleet", false},
		{"ft/notice", module + "cloud", true},
		{"ft/session", module + "slurm", false},
		{"cmd/burstd", module + "slurm/power", true},
		{"cmd/burstd", module + "cmd/internal/daemon", true},
		{"contrib/heat", module + "slurm", false},
		{"packaging", module + "cmd/internal/cli", false},
		{"slurm/unheard", module + "slurm", false},
		{"slurm/power", "modernc.org/sqlite", false},
		{"cmd/internal/store", "modernc.org/sqlite", true},
		{"cmd/internal/config", "github.com/BurntSushi/toml", true},
		{"cmd/burstd", "github.com/BurntSushi/toml", false},
		{"slurm", "github.com/spf13/cobra", false},
		{"cloud/aws", "github.com/aws/aws-sdk-go-v2/service/ec2", true},
		{"cmd/burstd", "github.com/aws/aws-sdk-go-v2/config", false},
	}
	for _, tt := range tests {
		t.Run(tt.from+" to "+strings.TrimPrefix(tt.to, module), func(t *testing.T) {
			if why := forbids(tt.from, tt.to); (why == "") != tt.allowed {
				t.Errorf("allowed %v, want %v (%s)", why == "", tt.allowed, why)
			}
		})
	}
}

func TestRooms(t *testing.T) {
	known := func(dir string) bool {
		parts := strings.Split(dir, "/")
		switch {
		case parts[0] != "cmd":
			return slices.ContainsFunc(rooms, func(r room) bool { return matches(r.path, dir) })
		case len(parts) > 2 && parts[1] == "internal":
			return slices.Contains(internals, parts[2])
		}
		return len(parts) > 1 && slices.Contains(programs, parts[1])
	}
	for _, s := range sources(t) {
		if dir := path.Dir(s.path); !known(dir) {
			t.Errorf("%s: %s is no room that the rules know", s.path, dir)
		}
	}
}

var (
	clockTime = regexp.MustCompile(`\.Format\((time\.(TimeOnly|DateTime|DateOnly|Kitchen|Stamp)|"[^"]*(15|2006))`)
	ofZone    = regexp.MustCompile(`(\.(Local|UTC)\(\)|\.In\(([^()]|\(\))*\))$`)
)

// TestTimes holds that a time which is written without its zone is in a known one: a
// cloud's times are in UTC, and who reads them beside Slurm's takes them for local ones.
func TestTimes(t *testing.T) {
	found := 0
	walk(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, at := range clockTime.FindAllIndex(text, -1) {
			if found++; !ofZone.Match(text[:at[0]]) {
				t.Errorf("%s:%d: a time is written in whatever zone it has: write t.Local().Format or t.UTC().Format", name, 1+bytes.Count(text[:at[0]], []byte("\n")))
			}
		}
	})
	if found == 0 {
		t.Error("no time is written anywhere: the rule looks for the wrong thing")
	}
}

func TestPackageComments(t *testing.T) {
	commented := map[string]bool{}
	for _, s := range sources(t) {
		dir := path.Dir(s.path)
		commented[dir] = commented[dir] || s.doc != ""
		want := "Package " + s.pkg
		if s.pkg == "main" {
			want = "Command " + path.Base(dir)
		}
		if first, _, _ := strings.Cut(s.doc, "\n"); s.doc != "" && !strings.HasPrefix(first, want+" ") {
			t.Errorf("%s: the package comment begins with %q, want %q", s.path, first, want+" …")
		}
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func TestFileLengths(t *testing.T) {
	walk(t, func(name string, text []byte) {
		if n := bytes.Count(text, []byte("\n")); n > maxLines && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s has %d lines, at most %d are allowed: split it", name, n, maxLines)
		}
	})
}

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && !slices.Contains(top, name) {
			t.Errorf("%s lies at the top of the tree: move it to a room, or write to build/", name)
		}
	}
	ignored, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(ignored)), "/build/") {
		t.Error(".gitignore does not name /build/")
	}
}
