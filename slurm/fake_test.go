package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// exitError is a command's own failure, as *exec.ExitError is.
type exitError int

func (e exitError) Error() string { return "exit status " + strconv.Itoa(int(e)) }
func (e exitError) ExitCode() int { return int(e) }

// fake answers commands from memory and records them.
type fake struct {
	mu       sync.Mutex
	commands [][]string
	jobs     func() []Job // for squeue; nil: none
	answer   func(command []string) (stdout, stderr string, err error)
}

func (f *fake) Run(_ context.Context, name string, args ...string) ([]byte, []byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	command := append([]string{name}, args...)
	if name == "squeue" && f.jobs != nil {
		return []byte(printJobs(f.jobs())), nil, nil
	}
	f.commands = append(f.commands, command)
	if f.answer == nil {
		return nil, nil, nil
	}
	stdout, stderr, err := f.answer(command)
	return []byte(stdout), []byte(stderr), err
}

// lines are the recorded commands, one string each.
func (f *fake) lines() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, c := range f.commands {
		all = append(all, strings.Join(c, " "))
	}
	return all
}

func newFake(f *fake) *Client {
	c := New(f)
	c.mark = func() string { return captureMark }
	return c
}

// printJobs prints what squeue would.
func printJobs(jobs []Job) string {
	var b strings.Builder
	seconds := func(t time.Time) string {
		if t.IsZero() {
			return "N/A"
		}
		return strconv.FormatInt(t.Unix(), 10)
	}
	flag := map[bool]string{true: "1", false: "0"}
	for _, j := range jobs {
		v := map[string]string{
			"JobID": decimal(j.ID), "ArrayJobID": decimal(max(j.ArrayID, j.ID)), "ArrayTaskID": j.ArrayTask, "HetJobID": decimal(j.HetID),
			"State": j.State, "Reason": j.Reason, "RestartCnt": strconv.Itoa(j.Restarts), "Requeue": flag[j.Requeue],
			"BatchFlag": flag[j.Batch], "exit_code": "0", "NumNodes": "1", "UserID": "1000", "UserName": "ann",
			"EligibleTime": seconds(j.Eligible), "StartTime": seconds(j.Start), "NodeList": j.Nodes,
		}
		if j.ArrayTask != "" {
			v["ArrayJobID"] = decimal(j.ArrayID)
		} else {
			v["ArrayTaskID"] = "N/A"
		}
		for _, f := range jobFields {
			b.WriteString(v[f.name] + captureMark)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func oneJob(j Job) func() []Job { return func() []Job { return []Job{j} } }

// wantLines compares the recorded commands.
func wantLines(t *testing.T, f *fake, want ...string) {
	t.Helper()
	if got := f.lines(); !slices.Equal(got, want) {
		t.Errorf("commands:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// manyNodes are n names of ten bytes.
func manyNodes(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("node-%05d", i)
	}
	return names
}
