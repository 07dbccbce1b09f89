#!/bin/bash
# lintian and rpmlint of the packages of the folder named; what they say and is meant to be so
# is in lintian.exceptions and rpmlint.toml, with reasons. Then how hard the units are: an exposure
# under 3 of 10, and what is open; why it must be is in the units. Exit code 3: a tool is missing, and
# cannot be installed.
set -euo pipefail

if [ $# != 1 ] || ! ls "$1"/*.deb "$1"/*.rpm >/dev/null; then
	echo "lint-packages: error: which folder of packages? packaging/lint-packages.sh FOLDER" >&2
	exit 2
fi
sudo=(env DEBIAN_FRONTEND=noninteractive)
[ "$(id -u)" = 0 ] || sudo=(sudo -n "${sudo[@]}")
for tool in lintian rpmlint cpio systemd-analyze; do
	package=${tool/systemd-analyze/systemd}
	command -v "$tool" >/dev/null || { "${sudo[@]}" apt-get -qq update && "${sudo[@]}" apt-get -qq install -y --no-install-recommends "$package" >/dev/null; } ||
		{ echo "lint-packages: error: NOT TESTED here: $tool is missing: apt-get install $package" >&2; exit 3; }
done
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# rpmlint unpacks by cpio, and nfpm's packages name their files from the root on: these would be
# written over this host's.
mkdir "$work/bin"
printf '#!/bin/sh\nexec %s --no-absolute-filenames "$@"\n' "$(command -v cpio)" >"$work/bin/cpio"
chmod +x "$work/bin/cpio"
failed=0
for deb in "$1"/*.deb; do
	echo "== lintian $(basename "$deb")"
	lintian --allow-root --tag-display-limit 0 --fail-on error,warning --suppress-tags-from-file "$here/lintian.exceptions" "$deb" || failed=1
done
for rpm in "$1"/*.rpm; do
	echo "== rpmlint $(basename "$rpm")"
	said=$(PATH=$work/bin:$PATH rpmlint --config "$here/rpmlint.toml" "$rpm" 2>&1) || failed=1
	echo "$said"
	! grep -Eq ': [EW]: ' <<<"$said" || failed=1
done
for deb in "$1"/*_amd64.deb; do
	dpkg-deb -x "$deb" "$work/root"
done
for unit in "$work"/root/usr/lib/systemd/system/*.service; do
	echo "== systemd-analyze security ${unit##*/}"
	said=$(LC_ALL=C.UTF-8 SYSTEMD_COLORS=0 systemd-analyze security --offline=true --no-pager --threshold=29 "$unit" 2>&1) || failed=1
	grep -E '^ *✗|Overall' <<<"$said" || { echo "$said"; failed=1; }
	sed -n '/^# What .* does not need/,/^[^#]/{/^#/p}' "$unit"
done
echo "== left out above, with reasons"
cat "$here/lintian.exceptions" "$here/rpmlint.toml"
[ $failed = 0 ] || echo "lint-packages: error: see above" >&2
exit $failed
