# shellcheck shell=sh
# What Burst runs on a host that it sets up over SSH: as root, by any POSIX
# shell, from stdin; and from the run's folder, for the run itself. Lines that
# begin with $MARK are for Burst; what the host's own profile prints is not.
set -u
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
umask 077
SEGMENT=1048576 # bytes of output in one file, of which the last two are kept

say() { printf '%s %s\n' "$MARK" "$*"; }
die() {
	say "error $*"
	exit 3
}
size() { wc -c <"$1" | tr -d ' '; }

# held says that a run has the lock. It takes it itself for a moment.
held() { ! (flock -n 8) 8>>lock; }

# turn waits for a start that another connection, which may be cut by now, has under way.
turn() {
	exec 7>>turn
	flock -w 20 "$1" 7 || die 'another start is under way'
}

# segment is the number of the last file of output; 0 if there is none.
segment() {
	last=0
	for f in out.*; do
		n=${f#out.}
		[ ! -e "$f" ] || [ "$n" -le "$last" ] || last=$n
	done
	echo "$last"
}

# state FROM: how the run is, and its output from that byte on, at most 64 KiB of it.
state() {
	turn -s
	if [ ! -e status ]; then
		say 'state none'
	elif held; then
		say 'state running'
	else
		read -r word code starts _ <status || :
		if [ "${word:-}" = ended ]; then say "state ended $code"; else say "state lost ${starts:-1}"; fi
	fi
	say "free $(df -Pk . | sed -n '2s/  */ /gp' | cut -d' ' -f4)"
	say "arch $(uname -m)"
	last=$(segment)
	[ -e "out.$last" ] || { say 'output 0 0' && return; }
	end=$((last * SEGMENT + $(size "out.$last"))) from=$1
	[ "$from" -le "$end" ] || from=$end
	[ $((end - from)) -le $((4 * 65536)) ] || from=$((end - 65536))
	n=$((from / SEGMENT)) at=$((from % SEGMENT))
	[ -e "out.$n" ] || n=$last at=0 from=$((last * SEGMENT))
	have=$(($(size "out.$n") - at))
	[ "$have" -le 65536 ] || have=65536
	[ "$have" -ge 0 ] || have=0
	say "output $from $have"
	tail -c "+$((at + 1))" "out.$n" | head -c "$have"
}

# word says what the cloud has told this host alone, in a file that only root reads: it is the host.
word() {
	[ -f "${DIR%/*/*}/word" ] || die 'its user data, which tells it a word, has not been run: the image needs cloud-init'
	say "word $(head -c 200 "${DIR%/*/*}/word")"
}

# prepare FILE…: lets the user who logged in write to the folder until the run
# starts, and says which files are there.
prepare() {
	[ -e status ] || chown "${SUDO_UID:-0}" . || die "the folder $PWD cannot be given to user ${SUDO_USER:-root}"
	for f in "$@"; do
		[ ! -f "$f" ] || say "file $f $(sha256sum <"$f" | cut -d' ' -f1)"
	done
}

# place FILE DIGEST MODE TO: checks what was uploaded; with TO, not "-", copies it there.
place() {
	[ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ] || die "$1 is not what was sent"
	chown 0:0 "$1" && chmod "$3" "$1" || die "$1 cannot be given to root"
	[ "$4" = - ] || { (umask 022 && mkdir -p "${4%/*}") && cp -p "$1" "$4.burst-new" && mv "$4.burst-new" "$4"; } || die "$4 cannot be written: $(df -Ph "${4%/*}" | tail -n 1)"
}

# start LIMIT [FILE DIGEST MODE TO]…: places the files and begins the run, unless
# it runs, or has ended. The status has its room on the disk from now on: a full
# one must not hide the end.
start() {
	limit=$1 starts=0
	shift
	turn -x
	! held || return 0
	if [ -s status ]; then
		read -r word _ starts _ <status
		[ "$word" != ended ] || return 0
	fi
	chown 0:0 . && chmod 0700 . || die "the folder $PWD cannot be given to root"
	while [ $# -ge 4 ]; do # nobody else can change them any more
		place "$1" "$2" "$3" "$4"
		shift 4
	done
	starts=$((starts + 1))
	printf '%-63s\n' "begun 0 $starts" >status.new && [ "$(size status.new)" = 64 ] && mv status.new status || die "no room in $PWD: $(df -Ph . | tail -n 1)"
	setsid sh ./host.sh "$MARK" "$PWD" run "$limit" "$starts" </dev/null >/dev/null 2>&1 7>&- &
	n=0 # until it has the lock: the next look must not find it lost
	while [ "$(head -c 5 status)" = begun ] && [ "$n" -lt 100 ]; do n=$((n + 1)) && sleep 0.1; done
	[ "$n" -lt 100 ] || die 'the run did not begin within 10 s'
}

# run LIMIT STARTS: the run itself. timeout(1) makes a process group of its own.
run() {
	exec 8>>lock
	flock -w 10 8 || exit 0
	read -r word _ starts _ <status
	[ "$word $starts" = "begun $2" ] || exit 0
	printf '%-63s\n' "runs $$ $2" 1<>status
	rm -f pipe group # of a run before a restart
	mkfifo pipe || exit 1
	keep <pipe >/dev/null 2>&1 8>&- &
	keeper=$!
	(umask 022 && exec timeout -k 10 "$1" bash ./script) </dev/null >pipe 2>&1 8>&- &
	group=$!
	echo "$group" >group
	code=0
	wait "$group" || code=$?
	case $code in
	124 | 137 | 143) kill -s KILL -- "-$group" 2>/dev/null ;; # what has outlived the limit
	esac
	n=0 # the last output, unless something holds the pipe on
	while kill -0 "$keeper" 2>/dev/null && [ "$n" -lt 20 ]; do n=$((n + 1)) && sleep 0.1; done
	printf '%-63s\n' "ended $code $2" 1<>status
	sync status 2>/dev/null
}

# keep puts its input into out.0, out.1, … and leaves the last two; a full disk ends that, not the run.
keep() {
	n=$(segment) write=head
	! command -v stdbuf >/dev/null || write='stdbuf -o0 head' # as it comes
	: >>"out.$n"
	while $write -c "$((SEGMENT - $(size "out.$n")))" >>"out.$n" && [ "$(size "out.$n")" -ge "$SEGMENT" ]; do
		rm -f "out.$((n - 1))"
		n=$((n + 1))
		: >>"out.$n"
	done
	cat >/dev/null
}

# stop ends the run, if it runs.
stop() {
	held || return 0
	group=''
	n=0
	while ! read -r group <group && held && [ "$n" -lt 20 ]; do n=$((n + 1)) && sleep 0.1; done # it has only begun
	held || return 0
	[ "$group" ] || die 'which processes the run has cannot be read'
	kill -s TERM -- "-$group"
	n=0
	while held && [ "$n" -lt 100 ]; do n=$((n + 1)) && sleep 0.1; done
	! held || kill -s KILL -- "-$group"
}

MARK=$1 DIR=$2
shift 2
[ "$(id -u)" = 0 ] || die "user $(id -un) is not root and cannot become it without a password"
mkdir -p "$DIR" && cd "$DIR" && chmod 0755 "${DIR%/*/*}" "${DIR%/*}" || die "the folder $DIR cannot be made: $(df -Ph / | tail -n 1)"
for tool in bash flock setsid sha256sum timeout mkfifo; do
	command -v "$tool" >/dev/null || die "the image has no $tool"
done
say begin
"$@" || die "$1 failed"
[ "$1" = state ] || say end
