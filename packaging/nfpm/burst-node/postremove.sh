#!/bin/sh
# deb: "remove", "purge", "upgrade" and the like; rpm: 0, or 1 for an upgrade.
set -e

case "$1" in
remove | 0)
	rm -f /run/burst-node-removal
	# Not before the unit is gone: where a removal is interrupted the agent is enabled still.
	find -L /etc/systemd/system -path '*.wants/burst-agent.service' -type l -delete 2>/dev/null || :
	;;
purge)
	rm -rf /var/lib/burst-agent
	rm -f /etc/burst/agent.env
	rmdir /etc/burst 2>/dev/null || : # it is burst's, which could not while the file was there
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
exit 0
