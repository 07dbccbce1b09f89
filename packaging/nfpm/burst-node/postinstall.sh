#!/bin/sh
# deb: "configure" and the version before; rpm: 1, or 2 for an upgrade. May run twice, and
# in a root where no systemd runs.
set -e

# again starts an agent that a removal has stopped, which then did not come to its end.
again() {
	[ -e /run/burst-node-removal ] || return 0
	rm -f /run/burst-node-removal
	[ ! -d /run/systemd/system ] || systemctl --no-block start burst-agent.service || :
}

case "$1" in
configure | [1-9]*) ;;
abort-*)
	again
	exit 0
	;;
*) exit 0 ;;
esac

# The agent is never started here for the first time: a node's bootstrap does that, with its settings.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	# It is ready when burstd has answered, which is not waited for.
	systemctl --no-block try-restart burst-agent.service || :
fi
again
exit 0
