#!/bin/bash
# Does what docs/tutorial.md says, with the packages of the folder named, in a root of Debian 12 that
# its own systemd boots, and compares what is printed with the page. UPDATE=1 writes it into the
# page. Needs root. Exit code 3: it cannot be tried here.
set -euo pipefail
umask 022
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

say() { echo "== $*"; }
fail() {
	echo "test-tutorial: error: $*" >&2
	exit 1
}
cannot() {
	echo "test-tutorial: error: NOT TESTED here: $*" >&2
	exit 3
}
[ $# = 1 ] && [ -e "$1/SHA256SUMS" ] || { echo "test-tutorial: error: which folder of packages? packaging/test-tutorial.sh FOLDER" >&2; exit 2; }
[ "$(id -u)" = 0 ] || cannot "a root of Debian needs root"
here=$(cd "$(dirname "$0")" && pwd)
roots=$here/../build/roots
page=$here/../docs/tutorial.md
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
. "$here/roots.sh"
tools debootstrap:debootstrap unshare:util-linux
base bookworm

# The machine that the page begins with.
root=$work/root
cp -a "$roots/bookworm" "$root"
mkdir "$root/pkg"
echo head >"$root/etc/hostname"
printf '127.0.0.1 localhost\n192.0.2.1 head\n' >"$root/etc/hosts"
chroot "$root" useradd --create-home --shell /bin/bash ann
cp "$1/SHA256SUMS" "$1"/burst*_"$(dpkg --print-architecture)".deb "$root/root/"
echo CgroupPlugin=cgroup/v1 >"$root/etc/slurm/cgroup.conf" # no slurmd of 22.05 gets along with the cgroups in there
CGO_ENABLED=0 go -C "$here/.." build -trimpath -buildvcs=false -o "$root/pkg/tutorial" ./packaging/tutorial
cp "$page" "$root/pkg/"
printf '#!/bin/sh\nexec /pkg/tutorial %s /pkg/tutorial.md\n' "${UPDATE:+--update}" >"$root/pkg/job.sh"
chmod +x "$root/pkg/job.sh"

say "the tutorial, on bookworm"
code=0
"$here/test-packages-boot.sh" "$root" || code=$?
[ $code = 0 ] || fail "it has not gone as docs/tutorial.md says"
[ -z "${UPDATE:-}" ] || cat "$root/pkg/tutorial.md" >"$page"
