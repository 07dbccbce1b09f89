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
	# Where it is a mount of the site's, that one stays.
	if [ ! -L /var/lib/burst-agent ] && [ -d /var/lib/burst-agent ]; then
		find /var/lib/burst-agent -mindepth 1 -delete || echo "burst-node: /var/lib/burst-agent is NOT DELETED whole" >&2
		rmdir /var/lib/burst-agent 2>/dev/null || :
	else
		rm -f /var/lib/burst-agent
	fi
	rm -f /etc/burst/agent.env
	rmdir /etc/burst 2>/dev/null || : # it is burst's, which could not while the file was there
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
exit 0
