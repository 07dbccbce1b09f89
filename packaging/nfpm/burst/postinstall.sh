#!/bin/sh
# deb: "configure" and the version before; rpm: 1, or 2 for an upgrade. May run twice, and
# in a root where no systemd runs.
set -e

# again starts a burstd that a removal has stopped, which then did not come to its end; with "enabled"
# only one that is: it may have been moved to another host since.
again() {
	if [ -e /run/burst-removal ]; then
		if [ ! -d /run/systemd/system ]; then
			: # it starts with the host, if at all
		elif [ "$1" = enabled ] && ! systemctl is-enabled --quiet burstd.service; then
			echo "burst: a removal has stopped burstd, which is not enabled: if it is to run here, systemctl enable --now burstd" >&2
		else
			systemctl --no-block start burstd.service || :
		fi
		rm -f /run/burst-removal || :
	fi
	rm -f /var/lib/burst/.removed || : # a folder that cannot be written leaves it; the journal is younger then
}

case "$1" in
configure | [1-9]*) ;;
abort-remove)
	again always
	exit 0
	;;
abort-*) # of an upgrade, maybe weeks after a removal that was killed
	again enabled
	exit 0
	;;
*) exit 0 ;;
esac

first= # it was not installed here before
[ "$1${2:-}" != configure ] && [ "$1" != 1 ] || first=yes
kind=rpm code=0
[ "$1" != configure ] || kind=deb

# The package's sample is the site's from then on: it is put there once, and again in place of a sample of before
# that nobody has changed, which prerm has noted. rpm has it as a configuration file of its own.
sample=/usr/share/burst/burst.toml
if [ $kind = deb ]; then # a purge that was killed leaves it so, see postrm
	[ -e /etc/burst/burst.toml ] || [ ! -e /etc/burst/burst.toml.dpkg-keep ] || mv /etc/burst/burst.toml.dpkg-keep /etc/burst/burst.toml
	rm -f /etc/burst/burst.toml.dpkg-keep
fi
if [ $kind = deb ] && [ -e $sample ]; then
	if { [ -n "$first" ] && [ ! -e /etc/burst/burst.toml ] && [ ! -L /etc/burst/burst.toml ]; } ||
		{ [ -s /run/burst-sample ] && [ "$(sha256sum </etc/burst/burst.toml)" = "$(cat /run/burst-sample)" ]; }; then
		mkdir -p /etc/burst
		install -m 0644 $sample /etc/burst/burst.toml.dpkg-new
		sync /etc/burst/burst.toml.dpkg-new
		mv /etc/burst/burst.toml.dpkg-new /etc/burst/burst.toml
	fi
	rm -f /run/burst-sample
fi

# refused is why the new burstd would not start with the site's configuration, wherever the unit has it; empty: it would.
refused() {
	burstd=/usr/sbin/burstd # none that comes first in PATH
	unit=$(systemctl show -p Environment -p ExecStart -p MainPID burstd.service || :)
	case $unit in
	*path=$burstd\ *) ;;
	*) return 0 ;; # the site's own
	esac
	config=$(echo "$unit" | sed -n 's/^ExecStart=.* --*config[= ]\([^ ;]*\).*/\1/p')
	pid=$(echo "$unit" | sed -n 's/^MainPID=//p') # it also has what an EnvironmentFile says
	[ -n "$config" ] || config=$(tr '\0' '\n' 2>/dev/null <"/proc/${pid:-0}/environ" | sed -n 's/^BURST_CONFIG=//p')
	[ -n "$config" ] || config=$(echo "$unit" | sed -n 's/^Environment=\(.* \)*BURST_CONFIG=\([^ ]*\).*/\2/p')
	why=$($burstd --check-config --config "${config:-/etc/burst/burst.toml}" 2>&1) || echo "${why:-burstd --check-config fails}"
}

# same is true if both are names, or numbers, of one user.
same() {
	[ "$1" = "$2" ] || { uid=$(getent passwd "$1" | cut -d: -f3) && [ -n "$uid" ] && [ "$uid" = "$(getent passwd "$2" | cut -d: -f3)" ]; }
}

# Burst has no user of its own: burstd is SlurmUser, whom Slurm's packages or the site make, with
# the same uid on all hosts.
tmpfiles=/usr/lib/tmpfiles.d/burst.conf
[ ! -e /etc/tmpfiles.d/burst.conf ] || tmpfiles=/etc/tmpfiles.d/burst.conf
# shellcheck disable=SC2046 # three words: mode, user and group of the spool's line
set -- $(sed -n 's,^d[[:space:]]*/var/spool/burst[[:space:]]*\([0-7]*\)[[:space:]]*\([^[:space:]]*\)[[:space:]]*\([^[:space:]]*\).*,\1 \2 \3,p' "$tmpfiles")
mode=${1:-} owner=${2:-} group=${3:-}
user=$(sed -n 's/^[[:space:]]*SlurmUser[[:space:]]*=[[:space:]]*\([^[:space:]#(]*\).*/\1/Ip' /etc/slurm/slurm.conf 2>/dev/null | tail -n 1)
# For Slurm that is root where it is not said; it may be said in what is included.
if [ -z "$user" ] && [ -s /etc/slurm/slurm.conf ] && ! grep -qi '^[[:space:]]*include[[:space:]]' /etc/slurm/slurm.conf; then
	user=root
fi
if [ -z "$owner" ] || [ -L /var/spool/burst ]; then
	: # the site has its spool elsewhere
elif [ -n "$user" ] && ! same "$user" "$owner"; then
	echo "burst: SlurmUser is $user, and $tmpfiles gives the spool to $owner: it is left as it is" >&2
	echo "burst: see \"Is your SlurmUser not slurm?\" in the guide for admins" >&2
elif ! getent passwd "$owner" >/dev/null || ! getent group "$group" >/dev/null; then
	echo "burst: no user $owner, or no group $group: burstd and the spool must be SlurmUser's" >&2
	echo "burst: see \"Is your SlurmUser not slurm?\" in the guide for admins" >&2
else
	# As systemd-tmpfiles does at each boot, which not all roots have. An installation may have been
	# interrupted between two of these: mode 0 is what it leaves. A folder of the site's stays, root's too.
	[ -d /var/spool/burst ] || mkdir -p -m 0 /var/spool/burst
	if [ "$(stat -c %a /var/spool/burst | sed 's/^2000$/0/')" = 0 ] || { [ -n "$first" ] && [ "$(stat -c %u /var/spool/burst)" = 0 ]; }; then
		chown "$owner:$group" /var/spool/burst
		chmod "$mode" /var/spool/burst
	fi
fi

# The service is never started here for the first time: it has to be configured before.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	# Orders under way are in the journal: the new burstd goes on with them. One that has failed, as
	# the older one does after a downgrade, was started once, and try-restart leaves it alone; on a
	# host that it was moved away from it is not enabled.
	verb=try-restart
	if systemctl is-failed --quiet burstd.service; then
		if systemctl is-enabled --quiet burstd.service; then
			systemctl reset-failed burstd.service || :
			verb=start
		else
			echo "burst: burstd has failed before and is not enabled: if it is to run here, systemctl enable --now burstd" >&2
		fi
	fi
	# The one of before watches the instances: it goes only for one that will.
	why=
	case $(systemctl is-active burstd.service || :) in
	active | activating | reloading) why=$(refused) ;;
	esac
	if [ -n "$why" ]; then
		echo "burst: burstd is NOT STARTED AGAIN, as the new one would not start:" >&2
		echo "$why" | head -n 20 >&2
		echo "burst: the one of before runs on and watches the instances; should it end, nobody does." >&2
		echo "burst: change the configuration until \`burstd --check-config\` says nothing, then systemctl restart burstd" >&2
		# dpkg keeps it as not configured, until dpkg --configure -a; rpm could only leave both versions installed.
		[ $kind != deb ] || { echo "burst: and dpkg --configure -a" >&2 && code=1; }
	else
		systemctl "$verb" burstd.service || echo "burst: burstd has not started again: see systemctl status burstd, then systemctl start burstd" >&2
	fi
fi
again enabled
exit $code
