package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	beatEvery   = 20 * time.Second // unless burstd says otherwise
	beatMin     = 5 * time.Second
	beatMax     = 5 * time.Minute
	sampleEvery = 5 * time.Second // a slurmd that keeps ending is seen between two beats too
)

// beat is what burstd is told of the node.
type beat struct {
	Instance string      `json:"instance"`
	Version  string      `json:"version"`
	Started  []time.Time `json:"slurmd_started"`   // within the last hour, the newest last
	Slurmd   *bool       `json:"slurmd,omitempty"` // runs now; absent: not known
	Spool    float64     `json:"spool_used"`       // per cent; -1: not known
}

// sample looks at slurmd until ctx ends.
func (a *Agent) sample(ctx context.Context) {
	t := newTally(a.Log, "it cannot be seen whether slurmd runs")
	for ctx.Err() == nil {
		if err := a.starts.look(time.Now()); err != nil {
			t.fail(err)
		} else {
			t.ok()
		}
		if sleep(ctx, jitter(sampleEvery)) != nil {
			return
		}
	}
}

// beats tells burstd of the node until ctx ends.
func (a *Agent) beats(ctx context.Context) {
	heard := newTally(a.Log, "burstd does not hear from this node")
	spool := newTally(a.Log, "it cannot be seen how full slurmd's spool is")
	every := beatEvery
	for ctx.Err() == nil {
		if next, err := a.beat(ctx, spool); err == nil {
			heard.ok()
			every = bound(next, every)
		} else if ctx.Err() == nil {
			heard.fail(err)
		}
		if sleep(ctx, jitter(every)) != nil {
			return
		}
	}
}

// beat sends one, and returns the seconds that burstd wants until the next.
func (a *Agent) beat(ctx context.Context, spool *tally) (every float64, err error) {
	b := beat{Instance: a.instance, Version: a.Version}
	look := a.starts.look(time.Now()) // an error is sample's to tell: the agent is not silent for it
	times, up := a.starts.within(time.Now())
	if b.Started = times; look == nil {
		b.Slurmd = &up
	}
	if b.Spool, err = used(a.spool()); err != nil {
		spool.fail(err)
	} else {
		spool.ok()
	}
	body, err := json.Marshal(b)
	if err != nil {
		return 0, err
	}
	answer, err := a.burstd.post(ctx, "/v1/node/beat", body, false)
	if err != nil {
		return 0, err
	}
	var v struct{ Every float64 }
	if err := json.Unmarshal(answer, &v); err != nil {
		return 0, fmt.Errorf("burstd's answer to a beat: %w", err)
	}
	return v.Every, nil
}

// bound keeps an interval in seconds within what is sensible; one that was not
// said changes nothing.
func bound(seconds float64, now time.Duration) time.Duration {
	if seconds <= 0 {
		return now
	}
	return time.Duration(min(max(seconds, beatMin.Seconds()), beatMax.Seconds()) * float64(time.Second))
}

// spool is slurmd's. A configless slurmd has it from slurm.conf, with its
// patterns of node and host, and its link leads there.
func (c Config) spool() string {
	if c.Spool != "" {
		return c.Spool
	}
	to, err := os.Readlink(c.Conf)
	if dir, name := filepath.Split(to); err == nil && name == "conf-cache" && filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return "/var/spool/slurmd"
}

// used is how full the file system of path is, in per cent; -1 with an error.
func used(path string) (float64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return -1, fmt.Errorf("asking for the file system of %s: %w", path, err)
	}
	return grade(s.Blocks, s.Bfree, s.Bavail, s.Files, s.Ffree), nil
}

// grade is df's percentage, of blocks or of inodes, whichever are scarcer:
// without either slurmd can write nothing. A file system without blocks, as
// /proc, is never full.
func grade(blocks, free, avail, files, ffree uint64) float64 {
	full := 0.0
	if in := blocks - min(free, blocks); in+avail > 0 {
		full = 100 * float64(in) / float64(in+avail)
	}
	if files > 0 {
		full = max(full, 100*float64(files-min(ffree, files))/float64(files))
	}
	return float64(int(full*10+0.5)) / 10
}
