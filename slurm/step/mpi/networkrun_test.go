package mpi

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hosts makes two hosts, h1 and h2, that have 10.77.0.1 and 2, of eth1, between them; their public
// addresses, of eth0, drop what they get, as behind a firewall. On h1 it runs the rest of its words.
const hosts = `set -e
cd "$1"; shift
mount -t sysfs sysfs /sys # of this network
printf '127.0.0.1 localhost\n10.77.0.1 h1\n10.77.0.2 h2\n' >names
mount --bind names /etc/hosts # no server of names is to be reached
ip link set lo up
ip link add eth1 type veth peer name eth1p
unshare --net --uts --mount sh -c 'mount -t sysfs sysfs /sys && touch ready; exec sleep 60' &
other=$!
until [ -e ready ]; do sleep 0.02; done
ip link set eth1p netns "/proc/$other/ns/net" name eth1
printf '#!/bin/sh\nuntil [ "${1#-}" = "$1" ]; do shift; done\nshift\nexec nsenter --net --uts --mount --target %s sh -c "$*"\n' "$other" >to
chmod +x to
hostname h1
./to h2 hostname h2
for n in 1 2; do
	on=; [ $n = 1 ] || on="./to h2"
	$on ip link add eth0 type veth peer name nowhere
	$on ip link set nowhere up
	$on ip addr add 203.0.113.$n/24 dev eth0
	$on ip addr add 10.77.0.$n/24 dev eth1
	$on ip link set eth0 up
	$on ip link set eth1 up
	$on ip link set lo up
	$on ip route add default via 203.0.113.254
	$on ip neigh add 203.0.113.$((3 - n)) lladdr 02:00:00:00:00:09 dev eth0 nud permanent
done
"$@"
`

const exchanges = `#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
	int rank, n = 1 << 22;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	char *out = calloc(n, 1), *in = calloc(n, 1);
	MPI_Sendrecv(out, n, MPI_CHAR, 1 - rank, 0, in, n, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 0) puts("exchanged");
	return MPI_Finalize();
}
`

// unknownNetwork is what Debian's launcher of Open MPI 5.0.7 says of the network that eth1 is in. It knows an interface by its name alone.
const unknownNetwork = "  Value:      10.77.0.0/24\n  Message:    Did not find interface matching this subnet\n"

// TestAClosedNetworkBesideTheNodes: the ranks of two hosts whose public addresses are closed reach
// each other.
func TestAClosedNetworkBesideTheNodes(t *testing.T) {
	if dir := os.Getenv("BURST_TEST_HOST"); dir != "" {
		onFirstHost(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("starts MPI")
	}
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: two networks need root")
	}
	for name, mpicc := range map[string]string{"packaged Open MPI": "mpicc.openmpi", "MPICH": "mpicc.mpich", "Open MPI 5": "../../../build/ulfm/bin/mpicc"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mpicc, err := exec.LookPath(mpicc)
			if err == nil {
				mpicc, err = filepath.Abs(mpicc)
			}
			if err != nil {
				t.Skip("NOT TESTED: it is not here (make deps, make deps-ulfm)")
			}
			w := newWorkshop(t)
			for name, text := range map[string]string{"hosts": hosts, "exchanges.c": exchanges} {
				if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w.run(mpicc, "-o", "exchanges", "exchanges.c")
			run := func() ([]byte, error) {
				_ = os.Remove(filepath.Join(w.dir, "ready"))
				ctx, cancel := context.WithTimeout(t.Context(), 18*time.Second)
				defer cancel()
				cmd := exec.CommandContext(ctx, "unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
					"sh", filepath.Join(w.dir, "hosts"), w.dir, os.Args[0], "-test.run", "^TestAClosedNetworkBesideTheNodes$", "-test.v")
				cmd.Env = append(os.Environ(), "BURST_TEST_HOST="+w.dir, "TMPDIR="+w.dir, "PATH="+filepath.Dir(mpicc)+":"+os.Getenv("PATH")) // of its own: process ids are, too
				cmd.WaitDelay = time.Second
				out, err := cmd.CombinedOutput()
				if ctx.Err() != nil {
					err = ctx.Err()
				}
				return out, err
			}
			out, err := run()
			// MPICH 4.0.2 over UCX stands still in MPI_Finalize once in some 25 runs, with a barrier before it, too, where one rank waits for the other's last
			// answer and that one has stopped to look. It says nothing of the networks: they have exchanged.
			for try := 1; try < 3 && errors.Is(err, context.DeadlineExceeded) && name == "MPICH" && strings.Contains(string(out), "exchanged\n"); try++ {
				t.Logf("it has not ended, and is tried again: %s", out)
				out, err = run()
			}
			switch {
			case err == nil && strings.Contains(string(out), "exchanged\n"):
			case strings.Contains(string(out), "Open MPI 5.0.7 /usr/bin/mpirun.openmpi ") && strings.Contains(string(out), unknownNetwork):
				t.Log("NOT TESTED: two networks with Debian's Open MPI 5.0.7, whose launcher knows no interface by its network, nor a host by its address")
			default:
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// onFirstHost runs the program over both hosts, as is planned on the first.
func onFirstHost(t *testing.T, dir string) {
	env := environment("PATH=" + os.Getenv("PATH"))
	f, err := Detect("", filepath.Join(dir, "exchanges"), env)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	w := World{
		Env: env, Default: "none", Types: func() []string { return nil },
		Launcher: func(f Found) string { return FindLauncher(f, env) }, Bridges: Bridges,
		Params: func(f Found) map[string]string { return Params(f, env) }, Fabric: func(Found) Fabric { return Fabric{} },
		UCX: func(f Found) bool { return OverUCX(f, env) },
		Network: func() Network {
			return Choose(Networks(), func() []netip.Addr {
				asked++
				return []netip.Addr{netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2")}
			})
		},
	}
	p, err := w.Plan(f, Step{Program: "exchanges", Nodes: 2, Tasks: 2, PerNode: 1, Whole: true}, Word{Launcher: true, Line: true})
	if err != nil || asked != 1 {
		t.Fatalf("%v, asked %d times", err, asked)
	}
	fmt.Println(f.Text(), texts(p))
	line, _ := p.Settings.Line([]string{"srun", filepath.Join(dir, "exchanges")}, 1)
	to := filepath.Join(dir, "to") // in place of srun
	words := map[Kind]string{
		OpenMPI4: "--allow-run-as-root --host 10.77.0.1,10.77.0.2 --mca btl self,tcp --mca pml ob1 --mca plm_rsh_agent " + to,
		OpenMPI5: "--allow-run-as-root --host 10.77.0.1,10.77.0.2 --mca btl self,tcp --mca pml ob1 --prtemca plm_ssh_agent " + to,
		MPICH:    "-bootstrap-exec " + to + " -hosts 10.77.0.1,10.77.0.2",
	}
	for i, word := range line {
		if word == "slurm" {
			line[i] = "ssh"
		}
	}
	args := append(strings.Fields(words[f.Kind]), line[1:]...)
	cmd := exec.CommandContext(t.Context(), line[0], args...)
	cmd.Env = append(p.Settings.Environ(os.Environ()), "UCX_TLS=tcp,self") // it is one host's memory in truth
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
