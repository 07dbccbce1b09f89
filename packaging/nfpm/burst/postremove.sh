#!/bin/sh
# deb: "remove", "purge", "upgrade" and the like; rpm: 0, or 1 for an upgrade.
set -e

# Whoever only removes it keeps the journal, the orders that wait, and what is in /etc/burst.
if [ "$1" = purge ]; then
	rm -rf /var/lib/burst /var/spool/burst /run/burst
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
exit 0
