# shellcheck shell=bash disable=SC2034,SC2154 # one script with the others, see bootstrap.go
step_ready() {
	retry 60 report ready "$(uptime) s after boot" || say "burstd was not told \"ready\": $ERROR"
	say 'ready'
}

# ended CODE: says what failed, here and to burstd.
ended() {
	trap - ERR EXIT
	set +e
	[ "$1" != 0 ] || return 0
	WHY="step $STEP: ${WHY:-line $AT: ${CMD%%$'\n'*}: exit code $1}"
	local output
	output=$(last_output)
	say "FAILED: $WHY"
	printf '%s\n' "$output" >&3
	[ "$IMAGE" = 1 ] || [ -z "$INSTANCE" ] || retry 30 report failed "$WHY|$output" || say "burstd was not told \"failed\": $ERROR"
}

if ! flock -n 9; then
	# Whoever set the host up over SSH takes our end for the node's: after a restart
	# in the middle burst-bootstrap.service may be at it, and may fail.
	[ "$GIVEN${BURST_STEPS:-}" ] && [ -z "${BURST_REBOOT:-}" ] || { say 'another bootstrap runs: this one leaves' && exit 0; }
	say 'another bootstrap runs: this one waits for its end'
	flock 9
fi
trap 'AT=$LINENO CMD=$BASH_COMMAND' ERR
trap 'ended $?' EXIT
trap 'WHY="ended by a signal" && exit 143' TERM INT HUP
STEPS="clock metadata munge imds slurmd whoami users mounts setup firewall ${EXPORT:+export} agent start ready fetch"
if [ "$IMAGE" = 1 ]; then # no node: whoever has started this waits for its last word
	STEPS=${BURST_STEPS:-clock metadata munge imds slurmd users mounts setup ${EXPORT:+export} clean}
	export BURST_IMAGE=1
	rm -f "$R/etc/burst/image" # it may itself be of an image: nothing is left out for that
fi
for STEP in $STEPS; do
	say "step $STEP"
	output_from_here
	[ -z "$TOLD" ] || [ "$STEP" = ready ] || [ "$STEP" = fetch ] || tell setup "$STEP"
	"step_$STEP"
done
