package agent

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
)

func TestBeats(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		want         int // in an hour, at least
		most         int
	}{
		{"20 s", `{"every":20}`, 180, 240},
		{"10 s", `{"every":10}`, 360, 480},
		{"too often", `{"every":0.001}`, 720, 960},
		{"too rarely", `{"every":1e300}`, 12, 17},
		{"not said", `{}`, 180, 240},
		{"below zero", `{"every":-1}`, 180, 240},
		{"rubbish", `<html>`, 180, 240},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.burstd.set(func(c *controller) { c.every = tt.answer })
				time.Sleep(beatEvery) // the answer to the first beat was another
				before := len(w.burstd.beaten())
				time.Sleep(time.Hour)
				if n := len(w.burstd.beaten()) - before; n < tt.want || n > tt.most {
					w.Errorf("%d beats in an hour", n)
				}
			})
		})
	}
}

// TestBeat follows a slurmd that keeps ending.
func TestBeat(t *testing.T) {
	inBubble(t, func(w *world) {
		begin := time.Date(1999, 12, 31, 23, 59, 1, 0, time.UTC)
		last := func() beat {
			time.Sleep(beatEvery)
			all := w.burstd.beaten()
			return all[len(all)-1]
		}
		b := last()
		if b.Spool <= 0 || b.Spool > 100 {
			w.Errorf("the spool is used to %g %%", b.Spool)
		}
		b.Spool = 0
		runs := true
		if d := cmp.Diff(beat{Instance: "i-1", Version: "test", Started: []time.Time{begin}, Slurmd: &runs}, b); d != "" {
			w.Error(d)
		}
		if err := os.RemoveAll(filepath.Join(w.config.Proc, "100")); err != nil {
			w.Fatal(err)
		}
		if b := last(); *b.Slurmd || len(b.Started) != 1 {
			w.Errorf("slurmd has ended, and the beat is %+v", b)
		}
		for i := range 30 { // each lives for 10 s
			dir := filepath.Join(w.config.Proc, "200")
			proc(w.T, w.config.Proc, map[string]string{"200/stat": stat(200, 1, "slurmd", 6000+1000*i)})
			time.Sleep(10 * time.Second)
			if err := os.RemoveAll(dir); err != nil {
				w.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		b = last()
		if len(b.Started) != startsKept || *b.Slurmd || !b.Started[19].Equal(begin.Add(349*time.Second)) {
			w.Errorf("after 30 starts: %+v", b)
		}
		time.Sleep(time.Hour)
		if b := last(); len(b.Started) != 0 {
			w.Errorf("an hour later: %+v", b)
		}
		if err := os.Remove(filepath.Join(w.config.Proc, "stat")); err != nil { // when a start was cannot be told
			w.Fatal(err)
		}
		before := len(w.burstd.beaten())
		if b := last(); b.Slurmd != nil || len(w.burstd.beaten()) == before {
			w.Errorf("without /proc/stat: %+v", b)
		}
	})
}

func TestSpool(t *testing.T) {
	for _, tt := range []struct{ name, spool, link, want string }{
		{"named", "/scratch", "/local/c1/conf-cache", "/scratch"},
		{"of a configless slurmd", "", "/local/c1/conf-cache", "/local/c1"},
		{"no slurmd has started", "", "", "/var/spool/slurmd"},
		{"another link", "", "/etc/slurm", "/var/spool/slurmd"},
		{"one that leads nowhere", "", "conf-cache", "/var/spool/slurmd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Config{Spool: tt.spool, Conf: filepath.Join(t.TempDir(), "conf")}
			if tt.link != "" {
				if err := os.Symlink(tt.link, c.Conf); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.spool(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestGrade(t *testing.T) {
	for _, tt := range []struct {
		name                              string
		blocks, free, avail, files, ffree uint64
		want                              float64
	}{
		{"empty", 1000, 1000, 950, 100, 100, 0},
		{"as df has it: what is kept for root is not there", 1000, 100, 50, 100, 90, 94.7},
		{"full for all but root", 1000, 50, 0, 100, 90, 100},
		{"no inodes left", 1000, 900, 900, 100, 0, 100},
		{"without inodes", 1000, 500, 500, 0, 0, 50},
		{"no file system of blocks", 0, 0, 0, 0, 0, 0},
		{"more free than there is", 10, 20, 20, 10, 20, 0},
	} {
		if got := grade(tt.blocks, tt.free, tt.avail, tt.files, tt.ffree); got != tt.want {
			t.Errorf("%s: %g %%, want %g", tt.name, got, tt.want)
		}
	}
}

func FuzzTold(f *testing.F) {
	f.Add([]byte(`{"instance":"i-1","events":[{"kind":"maintenance","event":"e","deadline":"2026-01-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parseTold(text)
		for _, n := range v.Events {
			if err != nil || n.Event == "" {
				t.Errorf("%q gives %+v, %v", text, n, err)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(w *world)
		want   string
		bad    bool
	}{
		{"all is well", func(*world) {}, "ok   burstd             http://one:9811 answers; it wants to hear every 20 s", false},
		{"a notice", func(w *world) { w.service.Spot("stop", time.Unix(1777050704, 0)) }, "stop at 2026-04-24T17:11:44Z", false},
		{"a maintenance that is off", func(w *world) {
			w.service.Maintenance(imdstest.Planned("e1", "system-reboot", "canceled", time.Unix(1777050704, 0)))
		}, "system-reboot e1 at 2026-04-24T17:11:44Z (off)", false},
		{"no service", func(w *world) { w.service.Fail("/latest", imdstest.Fault{Status: 500}) }, "BAD  instance ", true},
		{"rubbish", func(w *world) { w.service.Set(imdstest.RebalancePath, "<html>") }, "BAD  rebalance ", true},
		{"no munge", func(w *world) { w.munge.away = true }, "BAD  munge ", true},
		{"no spool", func(w *world) { w.config.Spool = "/none" }, "BAD  spool ", true},
		{"burstd away", func(w *world) { w.burstd.fail = down }, "BAD  burstd ", true},
		{"no slurmd, as before its start", func(w *world) { os.RemoveAll(filepath.Join(w.config.Proc, "100")) }, "ok   slurmd             does not run", false},
		{"one of two burstds", func(w *world) {
			w.config.URLs = []string{"http://two:9811", "http://one:9811"}
			w.burstd.fail = func(r *http.Request, _ []byte) (*http.Response, error) {
				if r.URL.Host == "two:9811" {
					return nil, errDown
				}
				return nil, nil
			}
		}, "ok   burstd             http://one:9811", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tt.change(w)
				all, err := Check(t.Context(), w.config)
				var b strings.Builder
				if perr := Print(&b, all); perr != nil {
					t.Error(perr)
				}
				if !strings.Contains(b.String(), tt.want) || errors.Is(err, ErrCheck) != tt.bad {
					t.Errorf("%v, want %q in\n%s", err, tt.want, b.String())
				}
				if got, _ := w.burstd.heard(); len(got) > 0 {
					t.Errorf("burstd was told of %v", got)
				}
			})
		})
	}
}
