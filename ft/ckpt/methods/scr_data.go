package methods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// scrName is the key of Made.Extra with the dataset's name.
const scrName = "scr_name"

// dataset is one checkpoint in SCR's index.
type dataset struct {
	id   int
	name string // "ckpt.5"
}

// newest is the newest whole checkpoint that is in the prefix directory.
func (p scrPlace) newest(ctx context.Context) (dataset, bool, error) {
	if _, err := os.Stat(p.meta("index.scr")); errors.Is(err, fs.ErrNotExist) {
		return dataset{}, false, nil
	}
	out, err := p.run(ctx, scrIndex, "--prefix="+p.prefix, "--list")
	if err != nil {
		return dataset{}, false, err
	}
	all, err := parseIndex(out)
	if err != nil || len(all) == 0 {
		return dataset{}, false, err
	}
	return slices.MaxFunc(all, func(a, b dataset) int { return a.id - b.id }), true, nil
}

// indexLine is as scr_index --list prints it, whether there is a time or not:
//
//	DSET VALID FLUSHED             CUR NAME
//	   6 YES   2026-08-01T03:10:00   * ckpt.6
var indexLine = regexp.MustCompile(`^ *([0-9]+) (YES|NO) +(?:[0-9][0-9T:-]+ +)?(?:\* +)?(\S.*)$`)

// parseIndex returns the checkpoints that SCR says are whole.
func parseIndex(out string) ([]dataset, error) {
	_, lines, found := strings.Cut("\n"+out, "\nDSET VALID FLUSHED")
	if !found {
		return nil, fmt.Errorf("scr_index --list does not print a list: %q", lastLine(out))
	}
	_, lines, _ = strings.Cut(lines, "\n")
	var all []dataset
	for line := range strings.Lines(lines) {
		line = strings.TrimRight(line, "\n")
		m := indexLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("scr_index --list: %q is no line of its list", line)
		}
		id, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, fmt.Errorf("scr_index --list: %q: %w", line, err)
		}
		if m[2] == "YES" {
			all = append(all, dataset{id, m[3]})
		}
	}
	return all, nil
}

// folder is where SCR describes a dataset.
func (d dataset) folder() string { return path.Join(".scr", "scr.dataset."+strconv.Itoa(d.id)) }

// files are a dataset's, relative to the prefix directory, SCR's own among them.
func (p scrPlace) files(ctx context.Context, d dataset) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(p.prefix, d.folder()))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		all = append(all, path.Join(d.folder(), e.Name()))
		if !strings.HasPrefix(e.Name(), "rank2file.") {
			continue
		}
		out, err := p.run(ctx, scrPrint, filepath.Join(p.prefix, d.folder(), e.Name()))
		if err != nil {
			return nil, err
		}
		names, err := parseRankFiles(out)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if !slices.ContainsFunc(all, func(name string) bool { return !strings.HasPrefix(name, ".scr/") }) {
		return nil, fmt.Errorf("SCR names no file of %s", d.name)
	}
	return all, nil
}

// parseRankFiles reads the files out of a printed tree: they stand one level
// below each FILE.
func parseRankFiles(out string) ([]string, error) {
	var names []string
	depth := -1 // of the last FILE
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		word := strings.TrimLeft(line, " ")
		at := len(line) - len(word)
		switch {
		case word == "":
		case depth >= 0 && at == depth+2:
			if !filepath.IsLocal(word) || path.Clean(word) != word {
				return nil, fmt.Errorf("SCR names the file %q, which is not below the prefix directory", word)
			}
			names = append(names, word)
		case at <= depth || depth < 0:
			depth = -1
			if word == "FILE" {
				depth = at
			}
		}
	}
	return names, nil
}

// keep copies a dataset into the generation.
func (p scrPlace) keep(ctx context.Context, d dataset, into string) error {
	names, err := p.files(ctx, d)
	if err != nil {
		return err
	}
	var files []seen
	for _, name := range names {
		f, err := seeFile(p.prefix, name)
		if err != nil {
			return fmt.Errorf("keeping %s: %w", d.name, err)
		}
		files = append(files, f)
	}
	if err := keep(ctx, p.prefix, into, files); err != nil {
		return fmt.Errorf("keeping %s: %w", d.name, err)
	}
	return nil
}

// putBack has SCR begin from the generation, unless it has a newer checkpoint that
// is whole: that one holds more work, and SCR checks it before it is used.
func (p scrPlace) putBack(ctx context.Context, g *ckpt.Generation, exact bool) error {
	names, err := storedFiles(g.Dir)
	if err != nil {
		return err
	}
	d, err := datasetOf(names, g.Extra[scrName])
	if err != nil {
		return fmt.Errorf("%s: %w", g.Dir, err)
	}
	at, ok, err := p.newest(ctx)
	if err != nil || ok && at.id > d.id && !exact {
		return err
	}
	for _, name := range names {
		if err := replace(ctx, stored(g.Dir, name), inPlace(p.prefix, name)); err != nil {
			return fmt.Errorf("putting back %s from %s: %w", name, g.Dir, err)
		}
	}
	// --add takes the place of what the index has of that name.
	for _, what := range []string{"--add=", "--current="} {
		if _, err := p.run(ctx, scrIndex, "--prefix="+p.prefix, what+d.name); err != nil {
			return err
		}
	}
	return nil
}

// datasetOf finds which dataset a generation's files are.
func datasetOf(names []string, name string) (dataset, error) {
	for _, n := range names {
		rest, ok := strings.CutPrefix(n, ".scr/scr.dataset.")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, "/")
		if id, err := strconv.Atoi(number); err == nil && id > 0 && name != "" {
			return dataset{id, name}, nil
		}
	}
	return dataset{}, errors.New("it holds no dataset of SCR")
}

// iterationOf is the number at the end of a dataset's name, as in ckpt.500; -1
// without one.
func iterationOf(name string) int64 {
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
