#!/bin/sh
# deb: "remove", "purge", "upgrade" and the like; rpm: 0, or 1 for an upgrade.
set -e

# theirs says why journal and spool are not this package's to delete, if they are not.
theirs() {
	if [ -S /run/burst/burstd.sock ] || command -v burstd >/dev/null; then
		echo "another burstd is installed or runs here"
	elif [ ! -d /var/lib/burst ]; then
		: # no journal here
	elif [ ! -f /var/lib/burst/.removed ] || [ -L /var/lib/burst/.removed ]; then
		echo "it was not there when the package was removed"
	# By their ctime: what cp -a, rsync and tar put back has the mtime of then.
	elif since=$(find /var/lib/burst '(' -name 'burst.db*' -o -name cluster-id ')' -cnewer /var/lib/burst/.removed 2>&1) && [ -z "$since" ]; then
		if [ -s /var/lib/burst/.removed ] && [ -z "${BURST_ABANDON:-}" ]; then
			echo "it has instances that may live:"
			head -n 20 /var/lib/burst/.removed
		fi
	else
		echo "somebody has written it since the package was removed, or it cannot be told:"
		echo "$since" | head -n 20
	fi
}

# empty deletes a folder and what is in it; where it is a mount of the site's, that one stays.
empty() {
	if [ -L "$1" ]; then
		rm -f "$1"
	elif [ -d "$1" ]; then
		find "$1" -mindepth 1 -delete || echo "burst: $1 is NOT DELETED whole" >&2
		rmdir "$1" 2>/dev/null || :
	fi
}

case "$1" in
remove | 0)
	rm -f /run/burst-removal
	# Versions before had burst.toml as a conffile. dpkg remembers it, and a purge of dpkg's deletes it before this is
	# asked whether anything may live: it has a second name for as long.
	if [ "$1" = remove ] && [ -f /etc/burst/burst.toml ] && dpkg-query -W -f='${Conffiles}' burst 2>/dev/null | grep -q '^ */etc/burst/burst\.toml '; then
		rm -f /etc/burst/burst.toml.dpkg-keep
		ln -L /etc/burst/burst.toml /etc/burst/burst.toml.dpkg-keep 2>/dev/null || cp -p /etc/burst/burst.toml /etc/burst/burst.toml.dpkg-keep ||
			echo "burst: /etc/burst/burst.toml has no second name: a purge deletes it, whatever lives" >&2
	fi
	# Not before the unit is gone: where a removal is interrupted burstd is enabled still.
	find -L /etc/systemd/system -path '*.wants/burstd.service' -type l -delete 2>/dev/null || :
	;;
purge)
	why=$(theirs)
	if [ -z "$why" ]; then # whoever only removes it keeps the journal, the orders that wait, and what is in /etc/burst
		for dir in /var/lib/burst /var/spool/burst /run/burst; do
			empty $dir
		done
		rm -f /etc/burst/burst.toml /etc/burst/burst.toml.dpkg-*
		rmdir /etc/burst 2>/dev/null || : # what the site has put there stays
	else
		[ -e /etc/burst/burst.toml ] || [ ! -e /etc/burst/burst.toml.dpkg-keep ] || mv /etc/burst/burst.toml.dpkg-keep /etc/burst/burst.toml
		rm -f /etc/burst/burst.toml.dpkg-keep
		echo "burst: /var/lib/burst, /var/spool/burst and /etc/burst/burst.toml are NOT DELETED: $why" >&2
		echo "burst: if nobody needs them, and nothing of them lives: rm -r /var/lib/burst /var/spool/burst /etc/burst/burst.toml" >&2
	fi
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
exit 0
