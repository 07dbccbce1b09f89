#!/bin/sh
# deb: "remove", or "upgrade" and the like; rpm: 0, or 1 for an upgrade.
set -e

case "$1" in
remove | 0) ;;
upgrade) # deb's: a sample that nobody has changed gives way to the new one, in postinst
	if cmp -s /usr/share/burst/burst.toml /etc/burst/burst.toml; then
		sha256sum </etc/burst/burst.toml >/run/burst-sample || :
	fi
	exit 0
	;;
*) exit 0 ;; # it runs on until its new version starts it again
esac

# left is what nobody would watch any more: it costs money until somebody finds it.
left() {
	[ -z "${BURST_ABANDON:-}" ] && command -v burstd >/dev/null || return 0
	burstd --unended 2>&1 || echo "burst: what lives in the clouds cannot be told"
}

# refuse ends this, and starts a burstd again that it has stopped, or a removal before that was killed: then
# only one that is enabled, as it may have been moved to another host since.
stopped=
refuse() {
	if [ -e /run/burst-removal ]; then
		if [ -d /run/systemd/system ] && { [ -n "$stopped" ] || systemctl is-enabled --quiet burstd.service; }; then
			systemctl --no-block start burstd.service || :
		fi
		rm -f /run/burst-removal || :
	fi
	echo "burst: NOT REMOVED: nobody would watch these any more, and they cost money:" >&2
	echo "$1" | head -n 20 >&2
	echo "burst: was burstd moved to another host, which watches them? then nothing is to be ended or started here:" >&2
	echo "burst: remove it with BURST_ABANDON=1 in the environment" >&2
	echo "burst: else end them with \`burst stop-all\`, with burstd running, and wait until \`burst nodes\` shows none" >&2
	echo "burst: or leave them to yourself, with BURST_ABANDON=1 too" >&2
	exit 1
}

lives=$(left)
[ -z "$lives" ] || refuse "$lives"
if [ -d /run/systemd/system ]; then
	# While it starts, or waits for its next start, it is not "active" yet.
	case $(systemctl is-active burstd.service) in
	active | activating | reloading) stopped=yes ;;
	deactivating) ! systemctl is-enabled --quiet burstd.service || stopped=yes ;; # it may be about to start again
	esac
	[ -z "$stopped" ] || : >/run/burst-removal # for whoever finds this interrupted, and burstd stopped: refuse, postinst
	systemctl stop burstd.service || :
	lives=$(left) # what it has launched meanwhile
	[ -z "$lives" ] || refuse "$lives"
fi
# With jobs of cloud partitions slurmctld would call programs that are gone, and the jobs wait for ever.
# The site's burst.conf counts where slurm.conf includes it.
set -- /etc/slurm/slurm.conf
! grep -qi '^[[:space:]]*include[[:space:]].*burst\.conf' "$1" 2>/dev/null || set -- "$1" /etc/slurm/burst.conf
named=$(grep -Hn '^[^#]*/usr/sbin/burst-' "$@" 2>/dev/null || :)
if [ -n "$named" ]; then
	echo "burst: WARNING: Slurm still calls what is removed: jobs in the cloud partitions would wait for nodes that nobody brings:" >&2
	echo "$named" | head -n 20 >&2
	echo "burst: take these lines, or the Include of burst.conf, out of slurm.conf, and restart slurmctld" >&2
fi
# What a purge may delete: a journal that nobody has written since, and of which nothing is left.
# The folder is SlurmUser's: nothing that is there is written through. Without a note a purge keeps the journal.
if [ -d /var/lib/burst ]; then
	lives="burst: without burstd what lives in the clouds cannot be told"
	! command -v burstd >/dev/null || lives=$(unset BURST_ABANDON && left) # this may write, too: the note is younger
	note=/var/lib/burst/.removed
	{ rm -f $note && (set -C && printf %s "$lives" >$note); } || rm -f $note || :
fi
exit 0
