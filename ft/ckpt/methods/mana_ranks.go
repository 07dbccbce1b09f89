package methods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	// extraFloor is where a manifest has the lowest descriptor that MPI's own had.
	extraFloor = "descriptors"
	// floorStep is how much higher it is at each restart. MPI is there before the
	// image that it is to serve, and a descriptor that the image brings back takes
	// the place of one of MPI's with its number: those must be above all that the
	// process had, and after the restart it gets its own above them. DMTCP has some
	// from 820 on, so after highestFloor it begins again: what was there so many
	// restarts ago is hardly open any more.
	floorStep    = 100
	highestFloor = 700
)

// nextFloor is the lowest descriptor that MPI may have in a restart of g.
func nextFloor(g *ckpt.Generation) (int, error) {
	floor, err := strconv.Atoi(g.Extra[extraFloor])
	if err != nil || floor < 0 || floor > highestFloor {
		return 0, fmt.Errorf("%s does not say which descriptors MPI had (%q)", g.Dir, g.Extra[extraFloor])
	}
	return floor%highestFloor + floorStep, nil
}

// fillDescriptors takes all descriptors from 3 up to below $1, puts the one by
// which mpiexec speaks to its rank above them, and becomes the rest.
const fillDescriptors = `floor=$1; shift
ulimit -Sn "$(ulimit -Hn)"
if [ -n "$PMI_FD" ] && [ "$PMI_FD" -lt "$floor" ]; then
  eval "exec $floor<&$PMI_FD" || exit 1
  export PMI_FD=$floor
fi
for ((fd = 3; fd < floor; fd++)); do eval "exec $fd</dev/null" || exit 1; done
exec "$@"`

// startRanks starts the coordinator and mpiexec, and waits for a restart to run.
// After an error nothing runs.
func (s *dmtcpStep) startRanks(ctx context.Context, l launch, t manaTools, call mpiexecCall, images []string) (err error) {
	host := loopback
	if l.nodes() > 1 {
		host = hostAddress()
	}
	if s.coordinator, err = startCoordinator(ctx, s.tools, s.dmtcpRoom, host); err != nil {
		return err
	}
	runs, err := s.rankRuns(l, t, call, host)
	if err == nil {
		s.process, err = l.begin(ctx, call.line(l, s.ranks, runs...), l.manaEnv())
	}
	if err == nil && l.From != nil {
		err = s.restarted(ctx, images)
	}
	if err != nil {
		return withMore(err, s.coordinator.end(ctx))
	}
	return nil
}

// rankRuns is what each rank runs.
func (s *dmtcpStep) rankRuns(l launch, t manaTools, call mpiexecCall, host string) ([]string, error) {
	join := []string{"-q", "-q", "-j", "-h", host, "-p", strconv.Itoa(s.coordinator.port), "--ckptdir", s.images}
	if l.From == nil {
		return slices.Concat([]string{t.launch, "--kernel-loader", "--no-gzip", "--disable-dl-plugin", "--with-plugin", t.plugin}, join, []string{t.lowerHalf}, call.program), nil
	}
	dir, err := filepath.Abs(l.From.Dir)
	return slices.Concat([]string{"bash", "-c", fillDescriptors, "mana", strconv.Itoa(s.floor), t.lowerHalf, "--restore"}, join, []string{"--restartdir", dir}), err
}

// manaEnv is the environment of mpiexec. MPICH is to speak by TCP alone, of which
// nothing is in the memory that is restored; and srun is not to bind mpiexec's
// helpers, and with them all ranks of a node, to one core.
func (l launch) manaEnv() []string {
	env := quietDMTCP(restartEnv(l))
	for key, value := range map[string]string{"UCX_TLS": "tcp,self", "SLURM_CPU_BIND": "none"} {
		if l.env(key) == "" {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// rankFolders are the folders that MANA writes: an image of each rank in one.
func rankFolders(ranks int) []string {
	var names []string
	for rank := range ranks {
		names = append(names, "ckpt_rank_"+strconv.Itoa(rank))
	}
	return names
}

// rankImages wants one whole image for each rank in dir, and no rank more.
func rankImages(dir string, ranks int) error {
	all, err := filepath.Glob(filepath.Join(escaped(dir), "ckpt_rank_*"))
	if err != nil {
		return err
	}
	if len(all) != ranks {
		return fmt.Errorf("%s has images of %d ranks, and should of %d: was MPI_Init over in all of them?", dir, len(all), ranks)
	}
	for _, name := range rankFolders(ranks) {
		folder := filepath.Join(dir, name)
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		n := 0
		for _, e := range entries {
			switch {
			case strings.HasSuffix(e.Name(), ".temp"):
				return fmt.Errorf("the image %s is not complete", filepath.Join(folder, e.Name()))
			case isImage(e):
				if err := isWhole(filepath.Join(folder, e.Name())); err != nil {
					return err
				}
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%s has %d images, and should have 1", folder, n)
		}
	}
	return nil
}

// rankImagesOf are the absolute paths of a generation's images, each rank's one.
func rankImagesOf(g *ckpt.Generation) ([]string, error) {
	dir, err := filepath.Abs(g.Dir)
	if err != nil {
		return nil, err
	}
	if g.Ranks < 1 {
		return nil, fmt.Errorf("%s does not say of how many ranks it is", dir)
	}
	if err := rankImages(dir, g.Ranks); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(escaped(dir), "ckpt_rank_*", "ckpt_*.dmtcp"))
}

// escaped is a path as a pattern that matches it alone.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
