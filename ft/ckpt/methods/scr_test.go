package methods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func TestParseIndex(t *testing.T) {
	const head = "DSET VALID FLUSHED             CUR NAME\n"
	for name, c := range map[string]struct {
		out  string
		want []dataset
		bad  string
	}{
		"two":                 {head + "   2 YES   2026-08-01T03:10:00   * ckpt.20\n   1 YES   2026-08-01T03:00:00     ckpt.10\n", []dataset{{2, "ckpt.20"}, {1, "ckpt.10"}}, ""},
		"not whole":           {head + "   2 NO    2026-08-01T03:10:00     ckpt.20\n", nil, ""},
		"never flushed":       {head + "  12 YES                           a b\n", []dataset{{12, "a b"}}, ""},
		"none":                {head, nil, ""},
		"words before it":     {"SCR v3.1.0: loading\n" + head + "   1 YES   2026-08-01T03:00:00   * ckpt.10\n", []dataset{{1, "ckpt.10"}}, ""},
		"another program's":   {"no such option\n", nil, "does not print a list"},
		"a line that is none": {head + "ERROR\n", nil, "no line of its list"},
		"too great a number":  {head + "99999999999999999999 YES   2026-08-01T03:00:00   * ckpt.10\n", nil, "out of range"},
	} {
		got, err := parseIndex(c.out)
		if !slices.Equal(got, c.want) || (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

const rankFiles = `  LEVEL
    0
  RANKS
    2
  RANK
    0
      FILE
        ckpt.10/rank_0.ckpt
          SIZE
            524294
        ckpt.10/more
    1
      FILE
        ckpt.10/rank_1.ckpt
          CRC
            0x1
`

func TestParseRankFiles(t *testing.T) {
	got, err := parseRankFiles(rankFiles)
	if want := []string{"ckpt.10/rank_0.ckpt", "ckpt.10/more", "ckpt.10/rank_1.ckpt"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"../outside", "/etc/passwd", "a//b", "a/../../b"} {
		if got, err := parseRankFiles("  FILE\n    " + bad + "\n"); err == nil {
			t.Errorf("%q is taken: %q", bad, got)
		}
	}
}

func FuzzSCRWords(f *testing.F) {
	f.Add("DSET VALID FLUSHED             CUR NAME\n   2 YES   2026-08-01T03:10:00   * ckpt.20\n")
	f.Add(rankFiles)
	f.Fuzz(func(t *testing.T, out string) {
		if all, err := parseIndex(out); err == nil {
			for _, d := range all {
				if d.id < 0 || d.name == "" || iterationOf(d.name) < -1 {
					t.Errorf("%+v", d)
				}
			}
		}
		if names, err := parseRankFiles(out); err == nil {
			for _, n := range names {
				if !filepath.IsLocal(n) {
					t.Errorf("%q", n)
				}
			}
		}
	})
}

// fakeSCR are SCR's commands over plain files, and an application that behaves as
// one with SCR does.
var fakeSCR = map[string]string{
	"scr_halt": `if [ "$1" = --remove ]; then exec rm "$2/.scr/halt.scr"; fi; mkdir -p "$1/.scr" && echo halt > "$1/.scr/halt.scr"`,
	"scr_index": `cd "${1#--prefix=}/.scr" || exit 1
case $2 in
--list) echo "DSET VALID FLUSHED             CUR NAME"; cat index.scr;;
--add=*) n=${2##*.}; [ -s "scr.dataset.$n/summary.scr" ] || exit 1; grep -qs "^ *$n " index.scr || echo "   $n YES   2026-08-01T03:10:00     ckpt.$n" >> index.scr;;
--current=*) echo "${2##*.}" > current;;
*) exit 2;;
esac`,
	"kvtree_print": `cat "$1"`,
	"app": `i=0; [ -s .scr/current ] && i=$(cat .scr/current) && [ "$(cat "ckpt.$i/state")" = "state $i" ] && [ -e ckpt.$i/nothing ] || i=0
save() {
	mkdir -p ckpt.$i .scr/scr.dataset.$i; echo "state $i" > ckpt.$i/state; : > ckpt.$i/nothing; echo summary > .scr/scr.dataset.$i/summary.scr
	printf '  RANK\n    0\n      FILE\n        ckpt.%s/state\n        ckpt.%s/nothing\n' $i $i > .scr/scr.dataset.$i/rank2file.0.0
	echo "   $i YES   2026-08-01T03:10:00     ckpt.$i" >> .scr/index.scr; echo $i > .scr/current
}
echo "began at $i, halt=$SCR_HALT_EXIT"; echo ready $$
while [ $i -lt "$1" ]; do
	i=$((i+1)); echo at $i; sleep 0.02
	[ "$2" = every ] && [ $((i % 10)) = 0 ] && save
	[ "$2 $i" != "every 15" ] || until [ -e go ]; do sleep 0.1; done
	if [ -e .scr/halt.scr ] && [ "$2" != deaf ]; then [ "$2" = empty ] || save; exit 1; fi
done
echo "done $i"`,
}

func bySCR(t *testing.T) *place {
	t.Helper()
	bin := t.TempDir()
	for name, script := range fakeSCR {
		put(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
	}
	return newPlace(t, candidate{name: "scr", program: []string{"app"}, env: []string{"PATH=" + bin + ":" + os.Getenv("PATH")}})
}

// begin starts the application up to a number, from a generation if that is given.
func (p *place) begin(from *ckpt.Generation, to int, how string) *running {
	p.t.Helper()
	l := p.launch(strconv.Itoa(to), how)
	l.From = from
	return p.start(l)
}

func TestSCR(t *testing.T) {
	t.Parallel()
	p := bySCR(t)
	r := p.begin(nil, 1000, "")
	r.awaitAt(3)
	g := p.checkpoint(r, true)
	r.finish(1)
	at := r.out.last()
	if g.Iteration != int64(at) || !strings.Contains(r.out.String(), "began at 0, halt=1\n") {
		t.Errorf("iteration %d of %d\n%s", g.Iteration, at, r.out.end())
	}
	for _, damage := range []func() error{
		func() error { return nil },
		func() error { return os.RemoveAll(filepath.Join(p.dir, ".scr")) },
		func() error { return os.RemoveAll(filepath.Join(p.dir, "ckpt."+strconv.Itoa(at))) }, // a rank's file of it is empty
		func() error {
			return os.WriteFile(filepath.Join(p.dir, "ckpt."+strconv.Itoa(at), "state"), []byte("state"), 0o600)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		r := p.begin(g, at+5, "")
		r.finish(0)
		if first := r.out.first(); first != at+1 {
			t.Errorf("the restart began at %d, want %d:\n%s", first, at+1, r.out.end())
		}
	}
}

// What the application writes by itself is kept; a restart leaves what is newer.
func TestSCRGoesOn(t *testing.T) {
	t.Parallel()
	p := bySCR(t)
	r := p.begin(nil, 45, "every")
	if _, err := r.step.Checkpoint(t.Context(), p.folder(), false); err == nil || !strings.Contains(err.Error(), "has written no checkpoint since") {
		t.Errorf("before the first one: %v", err)
	}
	r.awaitAt(11)
	g := p.checkpoint(r, false)
	if g.Iteration != 10 {
		t.Errorf("iteration %d", g.Iteration)
	}
	if _, err := r.step.Checkpoint(t.Context(), p.folder(), false); err == nil {
		t.Error("one was kept twice")
	}
	put(t, filepath.Join(p.dir, "go"), "")
	r.finish(0)
	r = p.begin(g, 45, "")
	r.finish(0)
	if first := r.out.first(); first != 41 {
		t.Errorf("began at %d, want 41 after the newer checkpoint", first)
	}
	p.c.options = Options{Exact: true}
	r = p.begin(g, 45, "")
	r.finish(0)
	if first := r.out.first(); first != 11 {
		t.Errorf("a rehearsal began at %d, want 11", first)
	}
}

func TestSCRFaults(t *testing.T) {
	t.Parallel()
	p := bySCR(t)
	r := p.begin(nil, 1000, "deaf")
	r.awaitAt(2)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := r.step.Checkpoint(ctx, p.folder(), true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that does not leave: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, ".scr/halt.scr")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the halt condition stays, and the application will leave: %v", err)
	}
	r.awaitAt(r.out.last() + 1)

	p = newPlace(t, p.c)
	r = p.begin(nil, 1000, "empty")
	r.awaitAt(2)
	if _, err := r.step.Checkpoint(t.Context(), p.folder(), true); !errors.Is(err, ckpt.ErrFinishing) {
		t.Errorf("one that leaves without a checkpoint: %v", err)
	}
	// The next attempt does not leave at once.
	r = p.begin(nil, 4, "")
	r.finish(0)

	l := p.launch("1", "")
	l.From = &ckpt.Generation{Dir: p.folder(), Manifest: ckpt.Manifest{Method: "scr"}}
	p.refused(l)
}

// With another number of ranks SCR finds no checkpoint, and says nothing of it.
func TestSCRRanks(t *testing.T) {
	t.Parallel()
	p := bySCR(t)
	of := func(tasks string, to int) ckpt.Launch {
		l := p.launch(strconv.Itoa(to), "")
		l.Args, l.Program = append([]string{"env"}, l.Args...), 1 // in srun's place
		l.Env = append(l.Env, "SLURM_NTASKS="+tasks)
		return l
	}
	r := p.start(of("2", 1000))
	r.awaitAt(2)
	g := p.checkpoint(r, true)
	r.finish(1)
	if g.Ranks != 2 {
		t.Errorf("of %d ranks", g.Ranks)
	}
	for tasks, refused := range map[string]bool{"2": false, "": false, "3": true} {
		l := of(tasks, r.out.last()+2)
		l.From = g
		if refused {
			p.refused(l)
			continue
		}
		p.start(l).finish(0)
	}
}

func TestSCRUsable(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := Usable(t.Context(), "scr"); err == nil || !strings.Contains(err.Error(), "scr_halt is not on PATH") {
		t.Errorf("%v", err)
	}
}
