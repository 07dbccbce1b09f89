package srun

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/container"
)

// TestATagIsLookedUpOnce: all steps of a script's attempt run what its first one was told, though
// the registry is away or has another image by then.
func TestATagIsLookedUpOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprintf(w, `{"layers":[{"size":%d}]}`, 100*asked)
	}))
	defer server.Close()
	ref, err := container.Parse("docker://"+strings.TrimPrefix(server.URL, "http://")+"/heat:1", "/")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{environ: []string{"APPTAINER_NOHTTPS=1"}}
	look := func(k known) container.Image {
		t.Helper()
		i, err := p.resolved(t.Context(), k, ref)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	script := known{facts: facts{job: step.Job{ID: 7, Place: step.Batch, Shell: 100}}}
	one := look(script)
	if two := look(script); two != one || asked != 1 || one.Size != 350 {
		t.Errorf("%+v and then %+v; it was asked %d times", one, two, asked)
	}
	later := script
	later.job.Attempt = 1
	if next := look(later); next.Key == one.Key || asked != 2 {
		t.Errorf("a later attempt: %+v; it was asked %d times", next, asked)
	}
	person := known{facts: facts{job: step.Job{ID: 8, Place: step.Interactive}}}
	if first := look(person); look(person).Key == first.Key {
		t.Error("in an allocation a tag is not looked up again")
	}
	writeSign(os.TempDir(), script.job, "tag-"+hexSum([]byte(ref.String()))[:16], []byte(`{"Digest":"x"}`))
	if look(script).Key == one.Key {
		t.Error("what is no digest is believed")
	}
	server.Close()
	if again := look(later); again.Ref.Digest == "" {
		t.Errorf("without the registry: %+v", again)
	}
}

// TestATagIsLookedUpOnceByStepsAtOnce: the registry gets a new image between any two questions.
func TestATagIsLookedUpOnceByStepsAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		select { // all others would have asked by then
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
		}
		fmt.Fprintf(w, `{"layers":[{"size":%d}]}`, n)
	}))
	defer server.Close()
	ref, err := container.Parse("docker://"+strings.TrimPrefix(server.URL, "http://")+"/heat:latest", "/")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{environ: []string{"APPTAINER_NOHTTPS=1"}, stderr: io.Discard}
	k := known{facts: facts{job: step.Job{ID: 7, Place: step.Batch, Shell: 100}}}
	images := make([]container.Image, 8)
	var wg sync.WaitGroup
	for i := range images {
		wg.Go(func() {
			var err error
			if images[i], err = p.resolved(t.Context(), k, ref); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, i := range images {
		if i != images[0] || i.Ref.Digest == "" || asked.Load() != 1 {
			t.Errorf("%+v and %+v; it was asked %d times", images[0], i, asked.Load())
		}
	}
}

// TestSilentRegistryIsWaitedForOnce: of steps that begin at once one has waited for a registry
// that does not answer for all; a step that begins later asks again.
func TestSilentRegistryIsWaitedForOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	defer func(was time.Duration) { slowAnswer = was }(slowAnswer)
	slowAnswer = 100 * time.Millisecond
	var asked atomic.Int64
	waiting, silent := make(chan struct{}), 200*time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-waiting
		time.Sleep(silent) // the answer's time, not a wait of the test
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	ref, err := container.Parse("docker://"+strings.TrimPrefix(server.URL, "http://")+"/heat:latest", "/")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{environ: []string{"APPTAINER_NOHTTPS=1"}, stderr: io.Discard}
	k := known{facts: facts{job: step.Job{ID: 7, Place: step.Batch, Shell: 100}}}
	fails := func() (questions int64) {
		before := asked.Load()
		if _, err := p.resolved(t.Context(), k, ref); err == nil || !strings.Contains(err.Error(), "EOF") {
			t.Errorf("got %v, want that the answer has broken off", err)
		}
		return asked.Load() - before
	}
	begun := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for range cap(begun) {
		wg.Go(func() {
			begun <- struct{}{}
			fails()
		})
	}
	for range cap(begun) {
		<-begun
	}
	close(waiting)
	wg.Wait()
	each := fails() // Go asks again by itself when an answer breaks off
	if each == 0 || asked.Load() != 2*each {
		t.Errorf("8 steps at once asked %d times, and one later %d times", asked.Load()-each, each)
	}
	if failedSince(k, "tag-"+hexSum([]byte(ref.String()))[:16], time.Now().Add(-time.Hour)) == nil {
		t.Error("no sign is left")
	}
}

// TestAnotherImageIsTold: a step that goes on in another image than its checkpoints are of.
func TestAnotherImageIsTold(t *testing.T) {
	for _, c := range []struct{ name, was, args, want string }{
		{"the same", "SIF KEY", "--container SIF", ""},
		{"written anew", "SIF sif-0", "--container SIF", "in another image than in attempt 0: SIF, which has been written anew since"},
		{"another", "/other.sif sif-0", "--container SIF", "in another image than in attempt 0: SIF, and ran in /other.sif"},
		{"of a registry", "docker://h.org/x@sha256:0", "--container SIF", "and ran in docker://h.org/x@sha256:0"},
		{"on the host", "SIF KEY", "--container none", "in attempt 0: on the host, and ran in SIF"},
		{"not known", "", "--container SIF", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			sif := a.dir("x.sif")
			head := make([]byte, 200)
			copy(head[32:], "SIF_MAGIC\x00")
			for path, text := range map[string]string{sif: string(head), a.dir("bin/apptainer"): "#!/bin/sh\necho '{\"Found\":{}}'\n", a.dir("bin/srun"): "#!/bin/sh\n"} {
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			i, err := container.Identify(container.Ref{Kind: container.File, Path: sif})
			if err != nil {
				t.Fatal(err)
			}
			words := strings.NewReplacer("SIF", sif, "KEY", i.Key)
			a.image = words.Replace(c.was)
			a.left(a.dir("work/burst-checkpoints"), "signal")
			a.ctld = a.slurm()
			a.env = slices.Concat(a.env, []string{"SLURM_JOB_NUM_NODES=1", "PATH=" + a.dir("bin") + ":" + os.Getenv("PATH"), "BURST_CONTAINER_CACHE=" + a.dir("cache")})
			code := a.run(append(strings.Fields(words.Replace(c.args)), "-n1", a.dir("bin/sim"))...)
			said := a.said.String()
			if code != cli.OK || c.want == "" && strings.Contains(said, "another image") || !strings.Contains(said, words.Replace(c.want)) {
				t.Errorf("exit code %d, said %s, want %q", code, said, words.Replace(c.want))
			}
			b := known{facts: facts{job: step.Job{ID: 17, Attempt: 1}}, seen: seen{script: a.script}}.book(a.dir("work/burst-checkpoints"))
			b.Attempt = 1
			r, there, err := b.At(1)
			want := sif + " " + i.Key
			if strings.Contains(c.args, "none") {
				want = ""
			}
			if err != nil || !there || !slices.ContainsFunc(r.Steps, func(s steprecord.Step) bool { return s.Image == want }) {
				t.Errorf("recorded: %+v, %t, %v", r.Steps, there, err)
			}
		})
	}
}
