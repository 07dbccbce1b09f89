package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// process is one of the kernel's.
type process struct {
	pid, parent int
	name        string
	state       byte
	start       uint64 // in ticks since the host's boot; with pid it is one process and no other
	session     int
	heir        bool // of a slurmd that led the session, see inherits
}

const ticksPerSecond = 100 // USER_HZ of Linux on all that Slurm runs on

// parseStat reads /proc/PID/stat. The name may hold blanks and parentheses.
func parseStat(text []byte) (process, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, errors.New("no name in parentheses")
	}
	rest := strings.Fields(string(text[end+1:]))
	if len(rest) < 20 || len(rest[0]) != 1 {
		return process{}, fmt.Errorf("%d fields after the name", len(rest))
	}
	p := process{name: string(text[open+1 : end]), state: rest[0][0]}
	var errs [4]error
	p.pid, errs[0] = strconv.Atoi(strings.TrimSpace(string(text[:open])))
	p.parent, errs[1] = strconv.Atoi(rest[1])
	p.start, errs[2] = strconv.ParseUint(rest[19], 10, 64)
	p.session, errs[3] = strconv.Atoi(rest[3])
	return p, errors.Join(errs[:]...)
}

// parseBoot finds the time of the host's boot in /proc/stat.
func parseBoot(text []byte) (time.Time, error) {
	for line := range strings.Lines(string(text)) {
		if word, ok := strings.CutPrefix(line, "btime "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
			return time.Unix(n, 0), err
		}
	}
	return time.Time{}, errors.New("no btime")
}

// readProcess reads one process below proc.
func readProcess(proc string, pid int) (process, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, err
	}
	return parseStat(text)
}

// slurmds finds the slurmds below proc, but for those that a slurmd has
// forked and that are about to become a slurmstepd, and for dead ones.
func slurmds(proc string) ([]process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(proc, pid)
		if err != nil {
			continue // it has ended meanwhile
		}
		if isSlurmd(p) {
			all[pid] = p
		}
	}
	if len(all) == 0 {
		if _, err := readProcess(proc, 1); err != nil {
			return nil, fmt.Errorf("no process of others can be seen: is %s mounted with hidepid? %w", proc, err)
		}
	}
	var found []process
	for _, p := range all {
		if _, forked := all[p.parent]; !forked {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b process) int { return int(int64(a.start) - int64(b.start)) })
	return found, nil
}

func isSlurmd(p process) bool { return p.name == "slurmd" && p.state != 'Z' && p.state != 'X' }

const (
	startsKept  = 20
	startsSince = time.Hour
)

// starts remembers the starts of slurmd. Looking at a process that is known is
// one small read; only when it has gone all of /proc is looked through.
type starts struct {
	proc string

	mu    sync.Mutex
	up    []process // the slurmds of the last look
	times []time.Time
}

// look sees which slurmds run now.
func (s *starts) look(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.up) > 0 && s.alive() {
		return nil
	}
	before := s.up
	s.up = nil
	found, err := slurmds(s.proc)
	if err != nil {
		return fmt.Errorf("looking for slurmd: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(s.proc, "stat"))
	if err != nil {
		return fmt.Errorf("reading the time of the boot: %w", err)
	}
	boot, err := parseBoot(text)
	if err != nil {
		return fmt.Errorf("reading the time of the boot in %s/stat: %w", s.proc, err)
	}
	for i, p := range found {
		known := slices.ContainsFunc(before, func(o process) bool { return o.pid == p.pid && o.start == p.start })
		found[i].heir = slices.ContainsFunc(before, p.inherits)
		if !known && !found[i].heir {
			at := boot.Add(time.Duration(p.start) * time.Second / ticksPerSecond)
			s.times = append(s.times, at)
		}
	}
	s.up = found
	slices.SortFunc(s.times, time.Time.Compare)
	s.times = slices.DeleteFunc(s.times, func(t time.Time) bool { return now.Sub(t) > startsSince })
	s.times = slices.Delete(s.times, 0, max(0, len(s.times)-startsKept))
	return nil
}

// inherits says whether p goes on for the slurmd o: from Slurm 23.11 on, a
// slurmd that is reconfigured makes a new process of itself, in its session,
// and leaves. That is no restart; one by systemd begins a session.
func (p process) inherits(o process) bool {
	return p.session == o.session && (o.heir || o.pid == o.session)
}

// alive says whether all slurmds of the last look still run.
func (s *starts) alive() bool {
	for _, p := range s.up {
		now, err := readProcess(s.proc, p.pid)
		if err != nil || now.start != p.start || !isSlurmd(now) {
			return false
		}
	}
	return true
}

// within returns the starts of the last hour, the newest last, and whether a
// slurmd runs.
func (s *starts) within(now time.Time) (times []time.Time, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.times {
		if now.Sub(t) <= startsSince {
			times = append(times, t.UTC())
		}
	}
	return times, len(s.up) > 0
}
