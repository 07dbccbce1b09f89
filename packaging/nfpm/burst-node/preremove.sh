#!/bin/sh
# deb: "remove", or "upgrade" and the like; rpm: 0, or 1 for an upgrade.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;; # it runs on until its new version starts it again
esac

# rpm removes this one although burst has refused: `burst stop-all` is in here.
if [ -z "${BURST_ABANDON:-}" ] && command -v burstd >/dev/null && [ -n "$(burstd --unended 2>&1 || echo "cannot be told")" ]; then
	echo "burst-node: NOT REMOVED: with what burstd watches, \`burst\` is needed" >&2
	echo "burst-node: was burstd moved to another host? remove it with BURST_ABANDON=1 in the environment" >&2
	if [ -e /run/burst-node-removal ]; then # a removal before has stopped the agent, and was killed
		[ ! -d /run/systemd/system ] || systemctl --no-block start burst-agent.service || :
		rm -f /run/burst-node-removal || :
	fi
	exit 1
fi
if [ -d /run/systemd/system ]; then
	# It is "activating" for as long as munged or the metadata service are silent.
	case $(systemctl is-active burst-agent.service) in
	active | activating | reloading) : >/run/burst-node-removal ;; # for whoever finds this interrupted, and the agent stopped: postinst
	esac
	systemctl stop burst-agent.service || :
fi
exit 0
