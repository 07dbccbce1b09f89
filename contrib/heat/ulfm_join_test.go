package heat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestULFMAsks: as many nodes are asked for as the job lacks, one that is refused again
// later, and not at once.
func TestULFMAsks(t *testing.T) {
	parts, err := filepath.Abs("ulfm/ulfm-nodes")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ how, want string }{
		"none is lacking":     {"ask 3", "0"},
		"two are":             {"ask 1; ask 1; idle", "2"},
		"one is to join":      {`: >"$ULFM_DIR/grown.8"; ask 2; idle`, "0"},
		"not at once":         {"fails=1; ask 2; idle; ask 2; ask 2; idle", "1"},
		"later":               {"fails=1; ask 2; idle; ask 2; SECONDS=13; ask 2; idle; SECONDS=20; ask 2; idle", "2"},
		"later each time":     {"fails=1; ask 2; idle; ask 2; SECONDS=20; ask 2; idle; ask 2; SECONDS=43; ask 2; SECONDS=50; ask 2; idle", "3"},
		"not without end":     {"for i in {1..9}; do later; done; echo $waits >>$ULFM_DIR/asked; sed -i s/600/x/ $ULFM_DIR/asked", "1"},
		"soon after one came": {"fails=1; ask 2; idle; ask 2; SECONDS=20; fails=; ask 2; idle; rm $ULFM_DIR/grown.*; ask 2; idle", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "bash", "-c", `ULFM_DIR=`+dir+` job=7 fails=; have=(h1 h2 h3); growing=(); . "$0"; . "${0%nodes}grow"; idle() { while [ -n "$(jobs -r)" ]; do sleep 0.01; done; }
				grow() { echo x >>"$ULFM_DIR/asked"; [ -z "$fails" ] && : >"$ULFM_DIR/grown.$BASHPID"; }; : >"$ULFM_DIR/asked"
				`+tt.how+`; grep -c x "$ULFM_DIR/asked"; exit 0`, parts)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != tt.want {
				t.Errorf("%s: %s, %v; want %s", tt.how, out, err, tt.want)
			}
		})
	}
}

// TestULFMProbes: new nodes are tried at once and beside the looks, those that boot or do not
// answer not at all, and none while a node is to join.
func TestULFMProbes(t *testing.T) {
	unhurried(t)
	parts, err := filepath.Abs("ulfm/ulfm-nodes")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ state, how, want string }{
		"both at once":         {"MIXED", "look; look; look; [ $SECONDS -lt 2 ] && echo soon; idle; look; sort $ULFM_DIR/tried", "soon\nnode h1 node h2 node h3\nh2\nh3\n"},
		"one fails":            {"MIXED", "fails=h3; look; idle; look; look; idle; look; sort $ULFM_DIR/tried", "node h1 node h2\nh2\nh3\nh3\n"},
		"it boots":             {"MIXED+CLOUD+POWERING_UP", "look; idle; look; idle; cat $ULFM_DIR/tried", ""},
		"it does not answer":   {"MIXED*", "look; idle; look; idle; cat $ULFM_DIR/tried", ""},
		"it is silent":         {"MIXED+CLOUD+NOT_RESPONDING", "look; idle; look; idle; cat $ULFM_DIR/tried", ""},
		"a node is to join":    {"MIXED", ": >$ULFM_DIR/grown.8; look; idle; look; idle; cat $ULFM_DIR/tried", "joins\njoins\n"},
		"they drain meanwhile": {"MIXED", "look; echo MIXED+DRAIN >$ULFM_DIR/state; idle; : >$ULFM_DIR/grown.8; look", "joins\n"},
		"it joins after that":  {"MIXED", "look; : >$ULFM_DIR/grown.8; look; idle; echo; look; sort $ULFM_DIR/tried", "\nnode h1 node h2 node h3\nh2\nh3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{
				"scontrol": `case $* in
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h[1-3] " ;;
					*hostnames*) printf 'h1\nh2\nh3\n' ;;
					*"show node h1") echo "NodeName=h1 State=MIXED" ;;
					*"show node h1,"*) state=$(cat "$ULFM_DIR/state" 2>/dev/null || echo '` + tt.state + `')
						printf "NodeName=h1 State=MIXED\nNodeName=h2 State=$state\nNodeName=h3 State=$state\n" ;;
					*"show node"*) echo "NodeName=$4 State=` + tt.state + `" ;;
					esac`,
				"srun": `for w; do case $w in --nodelist=*) node=${w#*=} ;; esac; done; echo $node >>"$ULFM_DIR/tried"; sleep 3; [ $node != "$fails" ]`,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", `export ULFM_DIR=`+dir+` job=7 fails=; host=h1 replace= usable=h1 tested=' h1 ' gone=' '; have=(h1 h2 h3); : >"$ULFM_DIR/tried"
				. "$0"; . "${0%nodes}grow"; trap 'kill "$listener" 2>/dev/null' EXIT; note() { :; }; plan() { echo $*; }; settled() { :; }; places() { :; }; drop() { :; }; leave() { :; }; take() { echo joins; : >"$ULFM_DIR/grown.8"; }; idle() { while [ -n "$(jobs -r)" ]; do sleep 0.01; done; }
				SECONDS=0; `+tt.how, parts)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.Output()
			if err != nil || string(out) != tt.want {
				t.Errorf("%s: %q, %v; want %q", tt.how, out, err, tt.want)
			}
		})
	}
}

// TestULFMAstray: a node on which a step runs, and which has no way to the batch host, gets no
// ranks: it is tried three times, and given back. Where nothing can listen for it a step will do.
func TestULFMAstray(t *testing.T) {
	unhurried(t)
	parts, err := filepath.Abs("ulfm/ulfm-nodes")
	if err != nil {
		t.Fatal(err)
	}
	const rounds = "for i in {1..9}; do look; idle; done; sort $ULFM_DIR/tried | tr '\\n' ' '"
	for name, tt := range map[string]struct{ how, want string }{
		"one has no way":     {"lost=h3; " + rounds + "; echo $replace", "node h1 node h2\nleft h3\nh2 h3 h3 h3 yes\n"},
		"it answers another": {"lost=h3 to=127.0.0.1; listen; read -r addr port word <$ULFM_DIR/back; echo $addr $port other >$ULFM_DIR/back; " + rounds, "left h2\nleft h3\nh2 h2 h2 h3 h3 h3 "},
		"few ports are open": {"export OMPI_MCA_btl_tcp_port_min_v4=23400 OMPI_MCA_btl_tcp_port_range_v4=90; listen; read -r addr port word <$ULFM_DIR/back; [ $((port / 100)) = 234 ] && " + rounds, "node h1 node h2 node h3\nh2 h3 "},
		"nobody listens":     {"lost=h3; ln -s /bin/false $ULFM_DIR/python3; " + rounds, "node h1 node h2 node h3\nh2 h3 "},
		"too many come":      {"for i in 1 2 3; do echo -$replace; shun g$i fails; done; echo -$replace", "-yes\n-yes\n-yes\n-\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{
				"scontrol": `case $* in
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h[1-3] " ;;
					*hostnames*) printf 'h1\nh2\nh3\n' ;;
					*"show node"*) for n in ${4//,/ }; do echo "NodeName=$n State=MIXED"; done ;;
					esac`,
				// What it runs on a node that is lost goes to another address.
				"srun": `for w; do case $w in --nodelist=*) node=${w#*=} ;; esac; done; echo $node >>"$ULFM_DIR/tried"
					while [ "${1#--}" != "$1" ]; do shift; done
					[ $node = "$lost" ] && set -- "${@//127.0.0.1/${to:-127.0.0.2}}"
					exec "$@"`,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", `export ULFM_DIR=`+dir+` job=7 lost= to=; host=h1 interface= replace=yes usable=h1 tested=' h1 ' kept=' h1 ' gone=' '; have=(h1 h2 h3); : >"$ULFM_DIR/tried"
				. "$0"; . "${0%nodes}grow"; trap 'kill "$listener" 2>/dev/null' EXIT; note() { :; }; plan() { echo $*; }; settled() { :; }; places() { :; }; drop() { :; }; ask() { :; }; leave() { echo left $1; }; idle() { while [ -n "$(jobs -r)" ]; do sleep 0.01; done; }
				`+tt.how, parts)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.Output()
			if err != nil || string(out) != tt.want {
				t.Errorf("%s: %q, %v; want %q", tt.how, out, err, tt.want)
			}
		})
	}
}

// TestULFMAgain: a node that has joined the job, and with which the ranks came to nothing, has
// none in the next attempt, and the job gives it back.
func TestULFMAgain(t *testing.T) {
	unhurried(t)
	for name, tt := range map[string]struct{ moved, want string }{
		"it never had ranks": {"", "h1 h1 update JobId=7 NodeList=h1,h2"},
		"it had some":        {"heat: plan 3: moved 1 ranks at iteration 5, going on from 5 with 2 ranks after 0.1 s, on h1 h3", "h1 h3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := fakes(t, dir, map[string]string{
				"scancel": "", "salloc": "exit 1",
				"srun": `[ "$BURST_SRUN_OFF" = 1 ] || exit 1
					while [ "${1#--}" != "$1" ]; do shift; done
					exec "$@"`,
				"mpirun": `if mkdir "$TMPDIR/one" 2>/dev/null; then
						until grep -q "plan 2" "$ULFM_DIR/plan"; do sleep 0.1; done
						echo "heat: plan 2: moved 1 ranks at iteration 3, going on from 3 with 2 ranks after 0.1 s, on h1 h1"
						until grep -q "node h3" "$ULFM_DIR/plan"; do sleep 0.1; done
						echo "` + tt.moved + `"
						exit 1
					fi
					tr '\n' ' ' <"$ULFM_DIR/first" >"$TMPDIR/again"
					[ -n "` + tt.moved + `" ] || until grep -q NodeList=h1,h2 "$TMPDIR/asked"; do sleep 0.1; done
					echo "heat: done"`,
				"scontrol": `echo "$*" >>"$TMPDIR/asked"
					case $* in
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h " ;;
					*hostnames*) printf 'h1\nh2\n'; [ ! -e "$TMPDIR/one" ] || echo h3 ;;
					*"show node"*) for n in ${4//,/ }; do [ $n = h2 ] && echo "NodeName=h2 State=MIXED+DRAIN" || echo "NodeName=$n NodeAddr=127.0.0.1 State=MIXED"; done ;;
					esac`,
			}, "-n", "2", "--poll", "0.2")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			again, err := os.ReadFile(filepath.Join(dir, "again"))
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(asked)) {
				if strings.Contains(line, "NodeList=h1,h2") {
					again = append(again, line...)
				}
			}
			if got := strings.TrimSpace(string(again)); got != tt.want {
				t.Errorf("%q, want %q\n%s", got, tt.want, out)
			}
		})
	}
}
