#!/bin/sh
# deb: "remove", "purge", "upgrade" and the like; rpm: 0, or 1 for an upgrade.
set -e

if [ "$1" = purge ]; then
	rm -rf /var/lib/burst-agent
	rm -f /etc/burst/agent.env
	rmdir /etc/burst 2>/dev/null || : # it is burst's, which could not while the file was there
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
exit 0
