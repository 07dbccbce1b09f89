#!/bin/sh
# Puts a real Apptainer into build/containers, for tests and benchmarks, where the system
# has no package of it (Debian 12, Ubuntu 24.04), and with it skopeo and docker-registry,
# for images that are pulled. They are Debian sid's, in a tree of their own, 600 MB, and
# what stands in build/containers/bin enters it: nothing of the system changes but that
# debootstrap is installed. Silent if all is there; what was fetched before is not
# fetched again. Needs root. MIRROR=URL is another mirror of Debian's.
set -eu
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

if [ $# != 0 ]; then
	echo "deps-containers: error: unknown arguments: $*" >&2
	exit 2
fi

root=$(cd "$(dirname "$0")/.." && pwd)
dir=$root/build/containers
tree=$dir/tree
part=$dir/tree.part
packages="apptainer skopeo docker-registry ca-certificates"
recipe="1: $packages, in $dir" # the number grows with what this file does

# enter is ours, and of seconds: it is always built anew.
build_enter() {
	mkdir -p "$dir/bin" "$dir/debs"
	(cd "$root" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$dir/enter" ./packaging/enter)
	for program in apptainer skopeo docker-registry; do
		ln -sfn ../enter "$dir/bin/$program"
	done
}

# whole says whether the tree is there to its end: the stamp is written last.
whole() {
	[ "$(cat "$dir/burst-stamp" 2>/dev/null)" = "$recipe" ] && [ -x "$tree/usr/bin/apptainer" ]
}

if whole; then
	build_enter
	exit 0
fi

if [ "$(id -u)" != 0 ]; then
	echo "deps-containers: error: making a tree of Debian's packages needs root" >&2
	echo "deps-containers: hint: run once as root: make deps-containers" >&2
	exit 1
fi

fail() {
	[ ! -s "$dir/log" ] || tail -n 30 "$dir/log" >&2
	echo "deps-containers: error: $1 failed, see above and $dir/log" >&2
	[ -z "${2:-}" ] || echo "deps-containers: hint: $2" >&2
	exit 1
}

# undone leaves no half tree, whatever ended this; what was fetched stays in debs.
undone() {
	code=$?
	trap - EXIT
	umount -l "$part/proc" "$part/sys" 2>/dev/null || :
	mkdir -p "$dir/debs"
	cp -n "$part"/var/cache/apt/archives/*.deb "$dir/debs/" 2>/dev/null || :
	# A mount that would not go is not deleted through.
	! grep -q " $part/" /proc/self/mounts && rm -rf "$part"
	exit "$code"
}

mkdir -p "$dir"
exec 9>"$dir/lock"
flock -n 9 || { echo "deps-containers: error: another make deps-containers is at it" >&2; exit 1; }
trap undone EXIT
trap 'exit 1' HUP INT TERM

if ! command -v debootstrap >/dev/null 2>&1 || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
	command -v apt-get >/dev/null 2>&1 || fail "looking for debootstrap and apt-get" "install debootstrap and Debian's archive keyring with this system's package manager"
	echo "deps-containers: installing debootstrap"
	{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends debootstrap debian-archive-keyring; } >"$dir/log" 2>&1 ||
		fail "apt-get install debootstrap"
fi

umount -l "$part/proc" "$part/sys" 2>/dev/null || :
if grep -q " $part/" /proc/self/mounts; then
	fail "unmounting what an earlier try has left below $part"
fi
rm -rf "$part" "$dir/burst-stamp" "$tree"
mkdir -p "$dir/debs"

echo "deps-containers: making a tree of Debian sid in build/containers: a minute or two"
# shellcheck disable=SC2086 # no word, or one
debootstrap --variant=minbase --keyring=/usr/share/keyrings/debian-archive-keyring.gpg --cache-dir="$dir/debs" sid "$part" ${MIRROR:-} >"$dir/log" 2>&1 ||
	fail "debootstrap" "it needs a mirror of Debian: MIRROR=URL, or a proxy (http_proxy)"

echo "deps-containers: installing $packages in it"
printf '#!/bin/sh\nexit 101\n' >"$part/usr/sbin/policy-rc.d" # no service is started
chmod 0755 "$part/usr/sbin/policy-rc.d"
cp -n "$dir"/debs/*.deb "$part/var/cache/apt/archives/" 2>/dev/null || :
cp /etc/resolv.conf "$part/etc/resolv.conf"
cat /etc/apt/apt.conf.d/*proxy* >"$part/etc/apt/apt.conf.d/proxy" 2>/dev/null || :
mount -t proc proc "$part/proc"
in_tree() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive \
		http_proxy="${http_proxy:-}" chroot "$part" "$@"
}
# A mirror that lags, or a snapshot, will do: its signature counts.
# shellcheck disable=SC2086 # one word each
{ in_tree apt-get -qq -o Acquire::Check-Valid-Until=false update && in_tree apt-get -qq -o Dpkg::Use-Pty=0 -o APT::Keep-Downloaded-Packages=true install -y --no-install-recommends $packages; } >>"$dir/log" 2>&1 </dev/null ||
	fail "apt-get install $packages in the tree"
umount "$part/proc"

# What root has in a container: none of the host's capabilities, some of which this host
# may not have itself.
sed -i 's/^root default capabilities = .*/root default capabilities = no/' "$part/etc/apptainer/apptainer.conf"
grep -qx 'root default capabilities = no' "$part/etc/apptainer/apptainer.conf" || fail "setting up apptainer.conf"

cp -n "$part"/var/cache/apt/archives/*.deb "$dir/debs/" 2>/dev/null || :
rm -rf "$part"/var/cache/apt/archives/*.deb "$part"/var/lib/apt/lists/*
mv "$part" "$tree"
build_enter
"$dir/bin/apptainer" --version >>"$dir/log" 2>&1 || fail "running apptainer"
sync -f "$tree"
echo "$recipe" >"$dir/burst-stamp"
rm -rf "$dir/debs"
echo "deps-containers: $("$dir/bin/apptainer" --version) is there: build/containers/bin"
