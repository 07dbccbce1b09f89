package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// manaMethod makes images of MPICH's ranks, on any number of nodes, by a MANA
// that is found on PATH. MANA is a plugin of DMTCP, which it brings along: all but
// the start of the ranks is as with the method dmtcp.
//
// Its scripts mana_launch and mana_restart only find their installation, and the
// coordinator by a file in the user's HOME, and part what they are given at its
// blanks. So what they run is run here without them.
type manaMethod struct{}

var _ ckpt.Method = manaMethod{}

func newMANA(Options) (ckpt.Method, error) { return manaMethod{}, nil }

// manaTools are the programs of one installation.
type manaTools struct {
	dmtcpTools        // of MANA's own DMTCP
	lowerHalf  string // the process that MPI runs, which loads the application or an image
	plugin     string
}

func (manaMethod) Name() string { return "mana" }

// Usable says what of MANA or MPICH is missing.
func (manaMethod) Usable(ctx context.Context) error { return usableMANA(ctx) }

func usableMANA(ctx context.Context) error {
	if _, err := findMANA(ctx, os.Environ()); err != nil {
		return err
	}
	if _, err := exec.LookPath("bash"); err != nil {
		return errors.New("mana: bash is not on PATH: a restart needs it on every node")
	}
	for _, name := range hydraNames {
		if path, err := exec.LookPath(name); err == nil && isHydra(ctx, path, os.Environ()) == nil {
			return nil
		}
	}
	return errors.New("mana: no mpiexec of MPICH is on PATH: install MPICH, or load its module")
}

// findMANA looks on the PATH of an environment.
func findMANA(ctx context.Context, env []string) (manaTools, error) {
	var t manaTools
	root := ""
	for _, name := range []string{"mana_launch", "mana_restart"} {
		found, err := launch{Env: env}.lookPath(name)
		if err == nil {
			found, err = filepath.EvalSymlinks(found)
		}
		if err != nil {
			return t, fmt.Errorf("mana: %s is not on PATH: install MANA 1.4 or later, or load its module", name)
		}
		root = filepath.Dir(filepath.Dir(found))
	}
	for _, tool := range []struct {
		name string
		path *string
	}{
		{"bin/dmtcp_launch", &t.launch}, {"bin/dmtcp_coordinator", &t.coordinator}, {"bin/dmtcp_command", &t.command},
		{"bin/lower-half", &t.lowerHalf}, {"lib/dmtcp/libmana.so", &t.plugin},
	} {
		*tool.path = filepath.Join(root, tool.name)
		if _, err := os.Stat(*tool.path); err != nil {
			return t, fmt.Errorf("mana: %w: is MANA 1.4 or later wholly built there?", err)
		}
	}
	// It finds MANA's libraries by cutting this off its own name, as long as it is.
	t.lowerHalf = root + "/bin/../bin/lower-half"
	code, out, err := runTool(ctx, &exec.Cmd{Path: t.launch, Args: []string{t.launch, "--version"}, Env: withoutDMTCP(env)})
	if err == nil && code != 0 {
		err = fmt.Errorf("its dmtcp_launch --version: %w", failed(code, out))
	}
	if err == nil {
		t.version, err = parseDMTCPVersion(out)
	}
	if err != nil {
		return t, fmt.Errorf("mana: %w", err)
	}
	return t, nil
}

// Start begins the step below a coordinator of its own, as dmtcp does.
func (m manaMethod) Start(ctx context.Context, given ckpt.Launch) (ckpt.Step, error) {
	tools, err := findMANA(ctx, given.Env)
	if err != nil {
		return nil, err
	}
	s, err := m.start(ctx, tools, launch(given))
	if err != nil {
		return nil, fmt.Errorf("mana: %w", err)
	}
	go s.watch()
	return s, nil
}

func (m manaMethod) start(ctx context.Context, tools manaTools, l launch) (*dmtcpStep, error) {
	if err := l.madeBy(m.Name()); err != nil {
		return nil, err
	}
	call, err := l.mpiexec(ctx)
	if err != nil {
		return nil, err
	}
	s := newDMTCPStep(m.Name(), l)
	s.tools, s.ranks = tools.dmtcpTools, call.ranks
	var images []string
	if l.From != nil {
		s.ranks = l.From.Ranks
		if images, err = rankImagesOf(l.From); err != nil {
			return nil, err
		}
		if s.floor, err = nextFloor(l.From); err != nil {
			return nil, err
		}
	}
	if s.dmtcpRoom, err = newDMTCPRoom(l.Scratch, false); err != nil {
		return nil, err
	}
	if err := s.startRanks(ctx, l, tools, call, images); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}
