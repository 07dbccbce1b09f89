package steprecord

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/jobword"
)

// did claims a step and says how it went.
func did(t *testing.T, b Book, args, once string, done bool) (name string, was Step) {
	t.Helper()
	err := b.Change(t.Context(), func(r *Record) error {
		words := strings.Fields(args)
		i, before := r.Claim(Step{Args: words, Program: words[0], Began: time.Now()}, once)
		was, name = before, r.Steps[i].Name
		if done {
			r.Steps[i].Done, r.Steps[i].Ended = true, time.Now()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return name, was
}

func TestBook(t *testing.T) {
	dir := t.TempDir()
	at := func(attempt int) Book {
		return Book{Dir: dir, Cluster: "c", Job: "17", Attempt: attempt, Script: "#!/bin/sh\n", Began: time.Now().Add(-time.Hour)}
	}
	first := at(0)
	if _, was := did(t, first, "./prep", "prep", true); was.Done {
		t.Error("done before it was begun")
	}
	did(t, first, "./a", "", false)
	second := at(1)
	if _, was := did(t, second, "./prep", "prep", false); !was.Done {
		t.Error("what was done is not known to the next attempt")
	}
	if name, was := did(t, second, "./a", "", false); name != "0" || was.LostUnknown != 1 {
		t.Errorf("step %s was %+v", name, was)
	}
	// The first attempt was cut off, goes on, and ends a step that it says is done.
	did(t, first, "./late", "late", true)
	third := at(2)
	if _, was := did(t, third, "./late", "late", false); was.Done {
		t.Error("a cut-off attempt's word is believed")
	}
	if _, was := did(t, third, "./prep", "prep", false); !was.Done {
		t.Error("what was done is forgotten")
	}
}

// TestAnAttemptThatDied: burstd knows when, and so what was lost.
func TestAnAttemptThatDied(t *testing.T) {
	died := time.Now().Add(time.Hour)
	b := Book{Dir: t.TempDir(), Cluster: "c", Job: "17", Script: "#!/bin/sh\n"}
	did(t, b, "./a", "", false)
	b.Attempt, b.Ends = 1, map[int]jobword.Evicted{0: {Died: died, Iterations: 40}, 1: {Died: died.Add(-2 * time.Hour)}}
	_, was := did(t, b, "./a", "", false)
	if !was.Ended.Equal(died) || was.LostUnknown != 0 || was.Behind != 40 {
		t.Errorf("it was %+v", was)
	}
	b.Attempt = 2 // and the second attempt died before it began, by burstd's clock
	if _, was := did(t, b, "./a", "", false); was.LostUnknown != 1 || was.Behind != 0 {
		t.Errorf("then it was %+v", was)
	}
}

// TestBookOfAnEarlierJob: Slurm gives a job's id again.
func TestBookOfAnEarlierJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *Book)
		known  bool
	}{
		{"the same job", func(*Book) {}, true},
		{"another script", func(b *Book) { b.Script += "x" }, false},
		{"another cluster", func(b *Book) { b.Cluster = "d" }, false},
		{"the same script, begun later", func(b *Book) { b.Began = time.Now().Add(time.Hour) }, false},
		{"the same job, and its node's clock was set", func(b *Book) { b.Began = time.Now().Add(time.Minute) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Book{Dir: t.TempDir(), Cluster: "c", Job: "17", Script: "#!/bin/sh\n"}
			did(t, b, "./prep", "prep", true)
			c.change(&b)
			if _, was := did(t, b, "./prep", "prep", false); was.Done != c.known {
				t.Errorf("done: %v", was.Done)
			}
		})
	}
}

func TestBookIsDamaged(t *testing.T) {
	b := Book{Dir: t.TempDir(), Job: "17"}
	did(t, b, "./prep", "prep", true)
	file := filepath.Join(b.Dir, "job-17", b.fileOf(0))
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := b.Change(t.Context(), func(*Record) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "steps-0.json") {
		t.Errorf("%v: it must not be taken for an empty one", err)
	}
}

func TestBookOfManySteps(t *testing.T) {
	b := Book{Dir: t.TempDir(), Job: "17", Script: "x"}
	var wg sync.WaitGroup
	var mu sync.Mutex
	names := map[string]bool{}
	for range 8 {
		wg.Go(func() {
			err := b.Change(context.Background(), func(r *Record) error {
				i, _ := r.Claim(Step{Args: []string{"./a"}, Program: "a"}, "")
				mu.Lock()
				defer mu.Unlock()
				names[r.Steps[i].Name] = true
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(names) != 8 {
		t.Errorf("8 steps at once got the names %v", names)
	}
}

// TestPeekWhileItIsWritten: another step of the job has a new file take the record's place
// at any moment, also while this one opens it.
func TestPeekWhileItIsWritten(t *testing.T) {
	b := Book{Dir: t.TempDir(), Cluster: "c", Job: "17", Script: "#!/bin/sh\n"}
	did(t, b, "./a", "", false)
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := b.Change(context.Background(), func(*Record) error { return nil }); err != nil {
				ended <- err
				return
			}
		}
	}()
	for i := range 5000 {
		if r, there, err := b.Peek(); err != nil || !there || len(r.Steps) != 1 {
			t.Errorf("look %d: %+v, %v, %v", i, r, there, err)
			break
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
