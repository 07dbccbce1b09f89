package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// ErrLost is wrapped by Step.Wait when the step did not end by itself: its
// method's tool took it along. Whatever exit code there is, the work is not done.
var ErrLost = errors.New("the step was lost")

// The oldest version that passes the tests: 4.1.1 does not, and version 3 does not
// take a second checkpoint after a restart.
const (
	firstDMTCP      = "4.2"
	firstDMTCPMajor = 4
	firstDMTCPMinor = 2
)

// dmtcpMethod makes images of a step's processes by a DMTCP that is found on
// PATH. The step is a program alone or below srun with one task, or Open MPI's
// mpirun on one node.
type dmtcpMethod struct{}

var _ ckpt.Method = dmtcpMethod{}

func newDMTCP(Options) (ckpt.Method, error) { return dmtcpMethod{}, nil }

// dmtcpTools are the programs of one installation.
type dmtcpTools struct {
	launch, restart, coordinator, command string
	version                               string // "4.2.0"
}

func (dmtcpMethod) Name() string { return "dmtcp" }

// Usable says what of DMTCP is missing.
func (dmtcpMethod) Usable(ctx context.Context) error { return usableDMTCP(ctx) }

func usableDMTCP(ctx context.Context) error {
	_, err := findDMTCP(ctx, os.Environ())
	return err
}

// findDMTCP looks on the PATH of an environment.
func findDMTCP(ctx context.Context, env []string) (dmtcpTools, error) {
	var t dmtcpTools
	for _, tool := range []struct {
		name string
		path *string
	}{
		{"dmtcp_launch", &t.launch}, {"dmtcp_restart", &t.restart}, {"dmtcp_coordinator", &t.coordinator}, {"dmtcp_command", &t.command},
	} {
		found, err := launch{Env: env}.lookPath(tool.name)
		if err != nil {
			return t, fmt.Errorf("dmtcp: %s is not on PATH: install DMTCP %s or later, or load its module", tool.name, firstDMTCP)
		}
		*tool.path = found
	}
	code, out, err := runTool(ctx, &exec.Cmd{Path: t.launch, Args: []string{t.launch, "--version"}, Env: withoutDMTCP(env)})
	if err == nil && code != 0 {
		err = fmt.Errorf("dmtcp_launch --version: %w", failed(code, out))
	}
	if err == nil {
		t.version, err = parseDMTCPVersion(out)
	}
	if err != nil {
		return t, fmt.Errorf("dmtcp: %w", err)
	}
	return t, nil
}

var dmtcpVersion = regexp.MustCompile(`\(DMTCP\) v?(([0-9]+)\.([0-9]+)[0-9A-Za-z.+-]*)`)

// parseDMTCPVersion reads what dmtcp_launch --version prints.
func parseDMTCPVersion(out string) (string, error) {
	m := dmtcpVersion.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("dmtcp_launch --version does not say which: %q", lastLine(out))
	}
	major, err1 := strconv.Atoi(m[2])
	minor, err2 := strconv.Atoi(m[3])
	switch {
	case err1 != nil || err2 != nil:
		return "", fmt.Errorf("dmtcp_launch --version does not say which: %q", m[1])
	case major < firstDMTCPMajor || major == firstDMTCPMajor && minor < firstDMTCPMinor:
		return "", fmt.Errorf("version %s is too old: %s or later is needed", m[1], firstDMTCP)
	}
	return m[1], nil
}

// Start begins the step below a coordinator of its own, whose port is open to
// the network and asks nobody who he is: DMTCP has no such check.
func (m dmtcpMethod) Start(ctx context.Context, given ckpt.Launch) (ckpt.Step, error) {
	tools, err := findDMTCP(ctx, given.Env)
	if err != nil {
		return nil, err
	}
	l := launch(given).aloneMPI()
	if err := l.madeBy(m.Name()); err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	if err := l.fitsDMTCP(); err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	images, err := imagesOf(l.From)
	if err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	room, err := newDMTCPRoom(l.Scratch, l.dmtcpHost() == loopback)
	if err != nil {
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	s := newDMTCPStep(m.Name(), l)
	s.tools, s.dmtcpRoom = tools, room
	if err := s.start(ctx, l, images); err != nil {
		room.remove()
		return nil, fmt.Errorf("dmtcp: %w", err)
	}
	go s.watch()
	return s, nil
}

// newDMTCPStep is a step of the method name that is still to be started.
func newDMTCPStep(name string, l launch) *dmtcpStep {
	return &dmtcpStep{method: name, own: l.dmtcpSignal(), began: time.Now(), joined: l.From != nil, turn: make(chan struct{}, 1), over: make(chan struct{})}
}

func (s *dmtcpStep) start(ctx context.Context, l launch, images []string) error {
	env := restartEnv(l)
	var err error
	if l.isMPI() && l.From == nil {
		if env, err = prepareMPI(ctx, l, s.work); err != nil {
			return err
		}
	}
	if s.coordinator, err = startCoordinator(ctx, s.tools, s.dmtcpRoom, l.dmtcpHost()); err != nil {
		return err
	}
	if err = s.launch(ctx, l, images, env); err != nil {
		return withMore(err, s.coordinator.end(ctx))
	}
	return nil
}

func (s *dmtcpStep) launch(ctx context.Context, l launch, images, env []string) (err error) {
	if l.From == nil {
		s.process, err = l.begin(ctx, l.dmtcpArgs(s, nil), quietDMTCP(env))
		return err
	}
	undo, err := oldPlace(ctx, l.From)
	if err != nil {
		return err
	}
	defer undo()
	if s.process, err = l.begin(ctx, l.dmtcpArgs(s, images), quietDMTCP(env)); err != nil {
		return err
	}
	return s.restarted(ctx, images)
}

// withMore adds an error to another one, in one line.
func withMore(err, more error) error {
	if more == nil {
		return err
	}
	return fmt.Errorf("%w; %w", err, more)
}
