package methods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// ErrLost is wrapped by Step.Wait when the step did not end by itself: its
// method's tool took it along. Whatever exit code there is, the work is not done.
var ErrLost = errors.New("the step was lost")

// DMTCP is the method dmtcp: images of a step's processes, by a DMTCP that is
// found on PATH. The step is a program alone or below srun with one task, or
// Open MPI's mpirun on one node.
type DMTCP struct{}

var _ ckpt.Method = DMTCP{}

const (
	// restartTime is how long the processes of a restart may take until they run.
	restartTime = 10 * time.Minute
	// firstMajor is the oldest version whose options and log are the ones read here.
	firstMajor = 3
)

// dmtcpTools are the programs of one installation.
type dmtcpTools struct {
	launch, restart, coordinator, command string
	version                               string // "4.2.0"
}

func (DMTCP) Name() string { return "dmtcp" }

// Usable says what of DMTCP is missing.
func (DMTCP) Usable(ctx context.Context) error {
	_, err := findDMTCP(ctx)
	return err
}

// Version is that of the DMTCP on PATH: "4.2.0".
func (DMTCP) Version(ctx context.Context) (string, error) {
	t, err := findDMTCP(ctx)
	return t.version, err
}

func findDMTCP(ctx context.Context) (dmtcpTools, error) {
	var t dmtcpTools
	for name, path := range map[string]*string{
		"dmtcp_launch": &t.launch, "dmtcp_restart": &t.restart, "dmtcp_coordinator": &t.coordinator, "dmtcp_command": &t.command,
	} {
		found, err := exec.LookPath(name)
		if err == nil {
			found, err = filepath.Abs(found)
		}
		if err != nil {
			return t, fmt.Errorf("dmtcp: %s is not on PATH: install DMTCP, or load its module", name)
		}
		*path = found
	}
	_, out, err := runTool(ctx, &exec.Cmd{Path: t.launch, Args: []string{t.launch, "--version"}, Env: withoutDMTCP(os.Environ())})
	if err != nil {
		return t, fmt.Errorf("dmtcp: %w", err)
	}
	t.version, err = parseDMTCPVersion(out)
	return t, err
}

var dmtcpVersion = regexp.MustCompile(`\(DMTCP\) v?(([0-9]+)[0-9A-Za-z.+-]*)`)

// parseDMTCPVersion reads what dmtcp_launch --version prints.
func parseDMTCPVersion(out string) (string, error) {
	m := dmtcpVersion.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("dmtcp: dmtcp_launch --version does not say which: %q", lastLine(out))
	}
	if major, err := strconv.Atoi(m[2]); err != nil || major < firstMajor {
		return "", fmt.Errorf("dmtcp: version %s is too old: %d.0 or later is needed", m[1], firstMajor)
	}
	return m[1], nil
}

// Start begins the step below a coordinator of its own, whose port is open to
// the network and asks nobody who he is: DMTCP has no such check.
func (DMTCP) Start(ctx context.Context, l ckpt.Launch) (ckpt.Step, error) {
	tools, err := findDMTCP(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.fitsDMTCP(); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(l.Scratch, "dmtcp-")
	if err != nil {
		return nil, fmt.Errorf("dmtcp: a folder for the coordinator: %w", err)
	}
	s := &dmtcpStep{tools: tools, work: work, images: filepath.Join(work, "images"), turn: make(chan struct{}, 1), over: make(chan struct{})}
	if err := s.start(ctx, l); err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	go s.watch()
	return s, nil
}

func (s *dmtcpStep) start(ctx context.Context, l ckpt.Launch) error {
	if err := os.Mkdir(s.images, 0o700); err != nil {
		return fmt.Errorf("dmtcp: %w", err)
	}
	images, err := imagesOf(l.From)
	if err != nil {
		return err
	}
	env := restartEnv(l)
	if l.isMPI() && l.From == nil {
		if env, err = prepareMPI(ctx, l, s.work); err != nil {
			return err
		}
	}
	if s.coordinator, err = startCoordinator(ctx, s.tools, s.work, l.dmtcpHost()); err != nil {
		return err
	}
	args := l.dmtcpArgs(s.tools, s.coordinator, s.images, images)
	if s.process, err = l.begin(ctx, args, quietDMTCP(env)); err == nil && l.From != nil {
		err = s.restarted(ctx, len(images))
	}
	if err != nil {
		s.coordinator.end(ctx)
		return fmt.Errorf("dmtcp: %w", err)
	}
	return nil
}

// restarted waits until all processes run: a truncated image leaves
// dmtcp_restart waiting for ever, without a coordinator.
func (s *dmtcpStep) restarted(ctx context.Context, processes int) error {
	limit, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	for {
		if !s.process.running() {
			// A short rest of work is done before it is seen to run.
			if code, err := s.process.wait(); err != nil || code == dmtcpFailed {
				return fmt.Errorf("dmtcp_restart failed with code %d: its message is in the step's output: %w", code, errors.Join(err, ErrLost))
			}
			return nil
		}
		if s.coordinator.running() {
			if _, out, err := s.coordinator.command(limit, "-s"); err == nil && parseStatus(out, processes) {
				return nil
			}
		} else if s.process.goneWithin(limit, dmtcpLeaveTime) {
			continue
		} else {
			return errors.Join(errors.New("the coordinator ended before the processes ran: is an image damaged?"), s.process.end(limit, dmtcpLeaveTime))
		}
		if !pause(limit, 100*time.Millisecond) {
			s.coordinator.end(ctx)
			return errors.Join(fmt.Errorf("the %d processes did not run again in time: %w", processes, limit.Err()), s.process.end(context.WithoutCancel(ctx), dmtcpLeaveTime))
		}
	}
}

// imagesOf are the absolute paths of a generation's images; none without one.
func imagesOf(g *ckpt.Generation) ([]string, error) {
	if g == nil {
		return nil, nil
	}
	if g.Method != "" && g.Method != "dmtcp" {
		return nil, fmt.Errorf("dmtcp: %s was made by %s", g.Dir, g.Method)
	}
	dir, err := filepath.Abs(g.Dir)
	if err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	names, err := imageNames(dir)
	if err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	if len(names) == 0 || g.Ranks != 0 && g.Ranks != len(names) {
		return nil, fmt.Errorf("dmtcp: %s has %d images, and should have %d", dir, len(names), max(g.Ranks, 1))
	}
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names, nil
}

// imageNames are the files of dir that are images, sorted.
func imageNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if isImage(e) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func isImage(e fs.DirEntry) bool {
	return e.Type().IsRegular() && strings.HasPrefix(e.Name(), "ckpt_") && strings.HasSuffix(e.Name(), ".dmtcp")
}
