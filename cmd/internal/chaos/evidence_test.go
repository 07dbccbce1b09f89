package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// end keeps the evidence of a failure.
func (w *world) end(seed uint64, root bool) {
	if !w.t.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("burst-chaos-%d-", seed))
	if err != nil {
		w.t.Error(err)
		return
	}
	if err := w.SaveLogs(dir); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	story := strings.Join(w.story, "\n") + "\n"
	w.mu.Unlock()
	for name, text := range map[string][]byte{"story.log": []byte(story), "events.log": w.events(), "jobs.log": w.command("scontrol", "-o", "show", "job"), "nodes.log": w.command("scontrol", "-o", "show", "node")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			w.t.Error(err)
		}
	}
	fmt.Printf("chaos: FAILED with CHAOS_SEED=%d, as root: %v. The story, events, jobs and logs are in %s\n", seed, root, dir)
}

func (w *world) command(name string, args ...string) []byte {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 30*time.Second)
	defer cancel()
	out, err := w.Cluster.Command(ctx, name, args...).CombinedOutput()
	if err != nil {
		out = fmt.Appendf(out, "%v\n", err)
	}
	return out
}

// events reads all of burstd's history; it may have ended.
func (w *world) events() []byte {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), time.Minute)
	defer cancel()
	if !w.BurstdAlive() {
		if err := w.StartBurstd(ctx); err != nil {
			return []byte(err.Error())
		}
	}
	var out bytes.Buffer
	after := int64(0)
	for {
		list, err := w.API.Events(ctx, after, 0)
		if err != nil {
			fmt.Fprintln(&out, err)
			return out.Bytes()
		}
		if len(list) == 0 {
			return out.Bytes()
		}
		for _, e := range list {
			writeEvent(&out, e)
			after = e.Seq
		}
	}
}

func writeEvent(out *bytes.Buffer, e api.Event) {
	fmt.Fprintf(out, "%s %-14s node=%s instance=%s job=%d %s\n", e.Time.Local().Format("15:04:05.000"), e.Kind, e.Node, e.Instance, e.Job, e.Text)
}

// leftovers lists processes that have the site's folder in their environment
// or arguments.
func leftovers(dir string) []string {
	itself, err := os.Readlink("/proc/self")
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	procs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, p := range procs {
		env, _ := os.ReadFile(p + "/environ") // gone meanwhile: nothing of ours
		args, _ := os.ReadFile(p + "/cmdline")
		if filepath.Base(p) != itself && (bytes.Contains(env, []byte(dir)) || bytes.Contains(args, []byte(dir))) {
			left = append(left, filepath.Base(p)+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return left
}
