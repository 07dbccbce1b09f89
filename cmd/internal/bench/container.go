package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// containerSize is how much is measured.
type containerSize struct {
	pairs    int // runs of heat, one in a container and one on the host
	seconds  int // of each, by how fast the host is
	launches int // of `true`, of each kind
}

// containerFull is what the benchmarks measure; tests measure less.
var containerFull = containerSize{pairs: 5, seconds: 60, launches: 15}

// containerTimes are seconds of heat, in pairs, and milliseconds of launches.
type containerTimes struct{ inside, outside, launchInside, launchOutside []float64 }

// containerBenches is one measurement with two results.
func containerBenches(size containerSize) []Bench {
	measure := once(func(ctx context.Context, env Env) (containerTimes, error) { return measureContainer(ctx, env, size) })
	absent := func(env Env) string {
		if _, err := containerPath(env); err != nil {
			return err.Error()
		}
		return ""
	}
	return []Bench{
		{
			Name:   "container-run-ratio",
			Method: fmt.Sprintf("heat of two ranks on a real slurmd of this host by burst-srun, about %d s each, in a SIF file over on the host: both are started, and then take turns of a second, one being stopped while the other runs, so that a host which is slower for a while is so for both; median over %d pairs, of which each second one has the host first", size.seconds, size.pairs),
			Unit:   "ratio", Better: Lower, Goal: 1.02, Absent: absent, Long: true,
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				times, err := measure(ctx, env)
				if err != nil {
					return nil, err
				}
				var ratios []float64
				for i, in := range times.inside {
					ratios = append(ratios, in/times.outside[i])
				}
				env.note("%.1f s in a container, %.1f s on the host; a launch of `true` %.0f ms and %.0f ms", Median(times.inside), Median(times.outside), Median(times.launchInside), Median(times.launchOutside))
				return ratios, nil
			},
		},
		{
			Name:   "container-launch",
			Method: fmt.Sprintf("`true` on a real slurmd of this host by burst-srun, in a SIF file that the node has and on the host in turn, process start to end: how much longer the container takes; median of %d", size.launches),
			Unit:   "ms", Better: Lower, Absent: absent, Long: true,
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				times, err := measure(ctx, env)
				if err != nil {
					return nil, err
				}
				var more []float64
				for i, in := range times.launchInside {
					more = append(more, in-times.launchOutside[i])
				}
				return more, nil
			},
		},
	}
}

// containerPath is a PATH with a tool that runs images: this one's, or that of what
// `make deps-containers` has put beside our programs.
func containerPath(env Env) (string, error) {
	path := os.Getenv("PATH")
	made := filepath.Join(filepath.Dir(env.Programs), "containers")
	if _, err := os.Stat(filepath.Join(made, "burst-stamp")); err == nil && os.Getuid() == 0 { // all of it was made
		return filepath.Join(made, "bin") + ":" + path, nil
	}
	for _, tool := range []string{"apptainer", "singularity"} {
		if _, err := exec.LookPath(tool); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Apptainer or Singularity is here: make deps-containers")
}

// containerScript prints nanoseconds: a line for each pair of launches, and then for each
// pair of runs, in the container and on the host.
const containerScript = `#!/bin/bash
export PATH=%[1]s BURST_CONTAINER_CACHE=%[2]s OMPI_MCA_mpi_yield_when_idle=1 SLURM_OVERLAP=1
burst=%[3]s heat=%[4]s sif=%[5]s to=printed
t() { local a=$(date +%%s%%N); "$@" >>$to 2>&1 || exit; local b=$(date +%%s%%N); took=$((b-a)); }
pair() { # number, program inside, program outside, arguments
	local n=$1 in=$2 out=$3; shift 3
	[ $((n%%2)) = 0 ] || { t $burst --container none $out "$@"; first=$took; }
	t $burst --container $sif $in "$@"; inside=$took
	[ $((n%%2)) = 1 ] || { t $burst --container none $out "$@"; first=$took; }
	echo $inside $first
}
t $burst --container $sif /usr/bin/true
for i in $(seq %[6]d); do pair $i "-n1 /usr/bin/true" "-n1 /usr/bin/true"; done
iterations=2000 took=0 # a longer run each time: a short one says little of how fast the host is
while [ $took -lt $((%[8]d*1000000000/4)) ]; do
	[ $took = 0 ] || iterations=$((iterations*%[8]d*1000000000/took/2))
	to=alone t $burst $heat -n 512 -i $iterations
done
iterations=$((iterations*%[8]d*1000000000/took))
what=(/opt/heat $heat) by=("--container $sif" "--container none")
race() { # number: one in the container and one on the host, of which one is stopped while the other runs
	local first=$(($1%%2)) i a sum=(0 0) job=() ranks=()
	for i in $first $((1-first)); do
		a=$(date +%%s%%N)
		$burst ${by[i]} ${what[i]} -n 512 -i $iterations >>$to 2>&1 &
		job[i]=$!
		until ranks[i]=$(pgrep -f -x "${what[i]} -n 512 -i $iterations") && [ $(wc -l <<<"${ranks[i]}") = 2 ]; do
			kill -0 ${job[i]} || exit
			sleep 0.01
		done
		kill -STOP ${ranks[i]}
		sum[i]=$(($(date +%%s%%N)-a))
	done
	i=$first
	while kill -0 ${job[0]} 2>/dev/null || kill -0 ${job[1]} 2>/dev/null; do
		if kill -0 ${job[i]} 2>/dev/null; then
			a=$(date +%%s%%N)
			kill -CONT ${ranks[i]} 2>/dev/null
			timeout 1 tail -s 0.02 --pid=${job[i]} -f /dev/null
			kill -STOP ${ranks[i]} 2>/dev/null
			sum[i]=$((sum[i]+$(date +%%s%%N)-a))
		fi
		i=$((1-i))
	done
	wait ${job[0]} && wait ${job[1]} && echo ${sum[0]} ${sum[1]}
}
for i in $(seq %[7]d); do race $i || exit; done
`

func measureContainer(ctx context.Context, env Env, size containerSize) (times containerTimes, err error) {
	path, err := containerPath(env)
	if err != nil {
		return times, err
	}
	heat, work := filepath.Join(filepath.Dir(env.Programs), "heat"), filepath.Join(env.Dir, "w")
	if err := os.Mkdir(work, 0o700); err != nil {
		return times, err
	}
	folder, sif := filepath.Join(env.Dir, "image"), filepath.Join(env.Dir, "heat.sif")
	image := rig.Image{Files: rig.OpenMPI(), Put: map[string]string{"/opt/heat": heat}}
	if err := image.Make(ctx, folder); err != nil {
		return times, fmt.Errorf("making the image: %w", err)
	}
	build := exec.CommandContext(ctx, "env", "PATH="+path, "APPTAINER_CACHEDIR="+filepath.Join(env.Dir, "tool"), "apptainer", "build", sif, folder)
	if out, err := build.CombinedOutput(); err != nil {
		return times, fmt.Errorf("apptainer build: %w: %s", err, out)
	}
	c, err := sandbox.Start(ctx, sandbox.Options{Dir: filepath.Join(env.Dir, "s"), OnPrem: 1})
	if err != nil {
		return times, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cmd := c.Command(ctx, "sbatch", "--wait", "--output=out", "-p", "onprem", "-n2")
	cmd.Dir = work
	cmd.Stdin = strings.NewReader(fmt.Sprintf(containerScript, path, filepath.Join(env.Dir, "cache"), filepath.Join(env.Programs, "burst-srun"), heat, sif, size.launches, size.pairs, size.seconds))
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Run(); err != nil {
		said, rerr := os.ReadFile(filepath.Join(work, "printed"))
		return times, fmt.Errorf("the job that times containers: %w: %s%.2000s %v", err, errOut.Bytes(), said, rerr)
	}
	if err := sameSums(filepath.Join(work, "printed"), 2*size.pairs); err != nil {
		return times, err
	}
	out, err := os.ReadFile(filepath.Join(work, "out"))
	if err != nil {
		return times, err
	}
	return readContainer(string(out), size)
}

// sameSums says whether heat has printed so many fields, all alike: a rank alone, or one
// that did nothing, would be fast.
func sameSums(file string, want int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sums, runs := map[string]bool{}, 0
	for word := range strings.FieldsSeq(string(text)) {
		if strings.HasPrefix(word, "checksum=") {
			sums[word] = true
			runs++
		}
	}
	if ranks := strings.Count(string(text), " 2 ranks as"); len(sums) != 1 || runs != want || ranks != want {
		return fmt.Errorf("%d runs of heat were to have one field, on two ranks: %d fields of %d runs, %d on two", want, len(sums), runs, ranks)
	}
	return nil
}

// readContainer reads what the job prints.
func readContainer(out string, size containerSize) (times containerTimes, err error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != size.launches+size.pairs {
		return times, fmt.Errorf("the job printed %d lines, not %d: %.500q", len(lines), size.launches+size.pairs, out)
	}
	for i, line := range lines {
		var in, outside float64
		if _, err := fmt.Sscan(line, &in, &outside); err != nil || in <= 0 || outside <= 0 {
			return times, fmt.Errorf("the job printed %q: %w", line, err)
		}
		if i < size.launches {
			times.launchInside, times.launchOutside = append(times.launchInside, in/1e6), append(times.launchOutside, outside/1e6)
		} else {
			times.inside, times.outside = append(times.inside, in/1e9), append(times.outside, outside/1e9)
		}
	}
	return times, nil
}
