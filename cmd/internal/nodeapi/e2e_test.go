package nodeapi

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
)

// client asks as a booting node does: curl and munge, and the answer's
// credential is opened before the answer is believed.
const client = `
set -eu
body=$2
sum() { sha256sum | cut -d' ' -f1; }
auth=$(printf 'POST %s %s' "$1" "$(printf %s "$body" | sum)" | munge --socket="$SOCKET")
ask() {
	curl -sS --max-time 10 -D "$DIR/head" -o "$DIR/body" -H "Authorization: MUNGE $auth" --data-binary "$body" "http://$BURSTD$1"
}
ask "$1"
if [ "${AGAIN:-}" ]; then ask "$1"; fi
status=$(head -n1 "$DIR/head" | cut -d' ' -f2)
if [ "$status" = 200 ]; then
	theirs=$(tr -d '\r' <"$DIR/head" | sed -n 's/^Burst-Credential: //p')
	signed=$(printf %s "$theirs" | unmunge --socket="$SOCKET" --keys=STATUS | tail -n1)
	[ "$signed" = "$(sum <"$DIR/body")" ] || { echo "the answer is forged"; exit 1; }
fi
echo "$status $(cat "$DIR/body")"
`

func TestAShellClientWithMunge(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged and curl: slow end-to-end, run by make test")
	}
	socket, foreign := mungetest.Start(t), mungetest.Start(t)
	w := &world{T: t, site: &site{addr: "127.0.0.1"}}
	w.Server = New(w.site, munge.New(munge.Options{Socket: socket}), Limits{Rate: 1000, Burst: 1000, PerAddr: 100}, slog.New(slog.DiscardHandler))
	w.root = os.Getuid() // whoever runs the test
	w.listen()
	run := func(t *testing.T, env []string, args ...string) string {
		cmd := exec.Command("sh", append([]string{"-c", client, "client"}, args...)...)
		cmd.Env = append(os.Environ(), "BURSTD="+w.addr, "SOCKET="+socket, "DIR="+t.TempDir())
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"whoami", nil, []string{whoami, me}, `200 {"instance":"i-1","node":"c1","cluster":"f00d","slurm":"22.05.8"}`},
		{"report", nil, []string{report, `{"instance":"i-1","stage":"ready","text":""}`}, "200 {}"},
		{"another instance", nil, []string{whoami, `{"instance":"i-9"}`}, `403 {"error":"no instance of this cluster has this id and address"}`},
		{"a credential again", []string{"AGAIN=1"}, []string{whoami, me}, `401 {"error":"the credential was used before"}`},
		{"another MUNGE key", []string{"SOCKET=" + foreign}, []string{whoami, me}, `401 {"error":"no credential under this host's MUNGE key"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := run(t, tt.env, tt.args...); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	t.Run("forty at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				if got := run(t, nil, whoami, me); !strings.HasPrefix(got, "200 ") {
					t.Error(got)
				}
			})
		}
		wg.Wait()
	})
}
