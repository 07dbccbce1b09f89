#!/bin/bash
# Runs the tests in a root of another release of Debian, against the Slurm and the MPI that it
# has: packaging/test-slurm.sh RELEASE [FLAG OF GO TEST... PACKAGES]; without packages, all as
# make test does. RELEASE --run COMMAND... runs a command in the root. Needs root. The root, 1.5 GB, is made once, by debootstrap, and has a build
# folder of its own; what runs in it has namespaces of its own, a network too, and ends with
# them. MIRROR=URL is another mirror.
set -euo pipefail
umask 022
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

if [ $# = 0 ]; then
	echo "test-slurm: error: which release of Debian? packaging/test-slurm.sh RELEASE [FLAG OF GO TEST... PACKAGES | --run COMMAND...]" >&2
	exit 2
fi
if [ "$(id -u)" != 0 ]; then
	echo "test-slurm: error: roots of Debian need root" >&2
	exit 1
fi
release=$1
shift
repo=$(cd "$(dirname "$0")/.." && pwd -P)
roots=$repo/build/roots
root=$roots/$release-tests
packages="ca-certificates git procps file xz-utils"

say() { echo "== $*"; }
fail() {
	echo "test-slurm: error: $*" >&2
	exit 1
}

cannot() { fail "$@"; }
. "$repo/packaging/roots.sh"
tools debootstrap:debootstrap unshare:util-linux pkill:procps
# What make deps-containers and make deps-ulfm bring runs on any release.
anywhere=()
for part in containers ulfm; do
	[ ! -e "$repo/build/$part/burst-stamp" ] || anywhere+=("$part=$(readlink -f "$repo/build/$part")")
done
# In the root there is no network: what tests alone import is fetched here.
(cd "$repo" && go mod download) || cannot "go mod download: see above"
GOROOT=$(go env GOROOT) GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE) GOFLAGS=$(go env GOFLAGS)
export GOROOT GOMODCACHE GOCACHE GOFLAGS GOPROXY=off GOTOOLCHAIN=local HOME=/root CGO_ENABLED=0
export repo root

# within runs a command in the root. All that it mounts is its own; with --alone it has no
# network but a card that leads nowhere: Slurm resolves nothing where all addresses are 127.0.0.1,
# and Open MPI does not go over lo.
within() {
	local net=() alone=
	[ "$1" != --alone ] || { net=(--net) alone=1; shift; }
	mkdir -p "$root/burst-build" "$root$repo" "$root$GOROOT" "$root$GOMODCACHE" "$root$GOCACHE" "$root/tmp"
	work=$(mktemp -d)
	# It ends with this script: at a signal by the trap, and where there is no time for one, by its own.
	trap 'pkill -KILL -P $$ -x unshare || :; rm -rf --one-file-system "$work"' EXIT
	chmod 1777 "$work"
	local code=0
	# shellcheck disable=SC2016 # the inner shell's
	setpriv --pdeathsig KILL unshare --mount --pid --uts --ipc "${net[@]}" --fork --kill-child bash -euc '
		work=$1 parts=$2 alone=$3
		shift 3
		hostname head
		mount --bind "$root" "$root" # what runs below may want namespaces of its own: of a mere folder there are none
		if [ -n "$alone" ]; then
			ip link set lo up
			ip link add eth0 type veth peer name nowhere
			ip address add 192.0.2.1/24 dev eth0
			ip link set nowhere up
			ip link set eth0 up
		fi
		mount -t proc proc "$root/proc"
		mount -t sysfs sysfs "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/dev/shm"
		mount -t tmpfs tmpfs "$root/run"
		mkdir "$root/run/lock" "$root/run/netns"
		mount --bind "$work" "$root/tmp"
		mkdir -p "$root$repo"
		for shared in "$repo" "$GOROOT" "$GOMODCACHE" "$GOCACHE"; do mount --bind "$shared" "$root$shared"; done
		mount --bind "$root/burst-build" "$root$repo/build"
		for part in $parts; do
			mkdir -p "$root$repo/build/${part%%=*}"
			mount --rbind "${part#*=}" "$root$repo/build/${part%%=*}"
		done
		cd "$root"
		mkdir -p mnt
		pivot_root . mnt
		umount -l mnt
		exec /usr/bin/env -C "$repo" PATH="$GOROOT/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
	' bash "$work" "${anywhere[*]}" "$alone" "$@" || code=$?
	rm -rf --one-file-system "$work"
	return $code
}

# names says where names are looked up. Without a network a name server does not answer, for which
# Slurm and sshd wait 10 s and more.
names() { sed -i "s/^hosts:.*/hosts: $*/" "$root/etc/nsswitch.conf"; }

# ready makes the root: the packages of make deps in a copy of the one with Slurm. The stamp, which
# is written last, names what it was made by.
ready() {
	local recipe
	recipe="$packages, and $(sha256sum <"$repo/packaging/deps.sh")"
	[ "$(cat "$root/burst-stamp" 2>/dev/null)" != "$recipe" ] || return 0
	base "$release"
	say "$release: what the tests need"
	if ! [ -e "$root" ]; then
		rm -rf --one-file-system "$root.new"
		cp -a "$roots/$release" "$root.new"
		mv "$root.new" "$root"
	fi
	rm -f "$root/burst-stamp"
	names files dns
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # no service is started
	chmod 0755 "$root/usr/sbin/policy-rc.d"
	printf '127.0.0.1 localhost\n192.0.2.1 head\n' >"$root/etc/hosts"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	cat /etc/apt/apt.conf.d/*proxy* >"$root/etc/apt/apt.conf.d/proxy" 2>/dev/null || :
	# A mirror that lags will do: its signature counts.
	echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/mirror"
	[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
	within env DEBIAN_FRONTEND=noninteractive sh -euc \
		"apt-get -qq update && apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends $packages" >"$root.log" 2>&1 </dev/null || { tail -n 30 "$root.log" >&2; fail "$release: apt-get, in the root; see $root.log"; }
	# pip may go through a proxy that this machine trusts.
	[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	within env DEBIAN_FRONTEND=noninteractive packaging/deps.sh --moto >>"$root.log" 2>&1 </dev/null || { tail -n 30 "$root.log" >&2; fail "$release: make deps, in the root; see $root.log"; }
	echo "$recipe" >"$root/burst-stamp"
}

ready
names files
say "$release: $(chroot "$root" slurmctld -V), $(chroot "$root" mpirun --version | head -n 1)"
within --alone make --no-print-directory build >"$root.build.log" 2>&1 || { tail -n 30 "$root.build.log" >&2; fail "$release: make build, in the root"; }
if [ "${1:-}" = --run ]; then
	within --alone "${@:2}"
	exit
fi
if [ $# = 0 ]; then
	set -- -timeout 40m ./...
fi
within --alone go run -buildvcs=false ./packaging/gotest -buildvcs=false -count=1 "$@"
