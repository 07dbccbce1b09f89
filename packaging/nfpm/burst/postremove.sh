#!/bin/sh
# deb: "remove", "purge", "upgrade" and the like; rpm: 0, or 1 for an upgrade.
set -e

# theirs says why the journal is not this package's to delete, if it is not.
theirs() {
	if [ -S /run/burst/burstd.sock ] || command -v burstd >/dev/null; then
		echo "another burstd is installed or runs here"
	elif [ -n "${BURST_ABANDON:-}" ]; then
		: # whoever says so
	elif [ ! -e /var/lib/burst/.removed ]; then
		echo "it was not there when the package was removed"
	elif [ -s /var/lib/burst/.removed ]; then
		echo "it has instances that may live:"
		head -n 20 /var/lib/burst/.removed
	elif [ -n "$(find /var/lib/burst -maxdepth 1 '(' -name 'burst.db*' -o -name cluster-id ')' -newer /var/lib/burst/.removed)" ]; then
		echo "somebody has written it since the package was removed"
	fi
}

case "$1" in
remove | 0)
	rm -f /run/burst-removal
	# Not before the unit is gone: where a removal is interrupted burstd is enabled still.
	find -L /etc/systemd/system -path '*.wants/burstd.service' -type l -delete 2>/dev/null || :
	;;
purge)
	why=
	[ ! -d /var/lib/burst ] || why=$(theirs)
	if [ -z "$why" ]; then # whoever only removes it keeps the journal, the orders that wait, and what is in /etc/burst
		rm -rf /var/lib/burst /var/spool/burst /run/burst
	else
		echo "burst: /var/lib/burst and /var/spool/burst are NOT DELETED: $why" >&2
		echo "burst: if nobody needs them, and nothing of them lives: rm -r /var/lib/burst /var/spool/burst" >&2
	fi
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
exit 0
