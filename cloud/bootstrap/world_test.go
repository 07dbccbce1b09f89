package bootstrap

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a machine of folders and stub commands on which the real script
// runs, with a metadata service, AWS and burstd on one test server. Nothing but
// the named tools of this host can be reached from it.
type world struct {
	*testing.T
	root, bin, state string
	url              string
	config           Config

	mu        sync.Mutex
	trouble   map[string]int    // by the name of a call: so many times it is answered 503
	refuse    map[string]string // 403
	missing   map[string]string // 404
	agent     string            // burstd's
	forge     func(*answer)
	instance  string
	munge     func(payload []byte) string    // encodes as burstd
	unmunge   func(credential string) string // opens as burstd
	mungeKeys []string
	script    func(Config) (string, error) // that is run; UserData
	servers   string                       // whose addresses burstd says
}

// answer is what burstd says, for a test to spoil.
type answer struct {
	body, signed string
	uid          int
	unsigned     bool
}

// tools of this host that the script may run as they are.
var hostTools = []string{"bash", "sh", "base64", "cat", "chmod", "curl", "cut", "date", "env", "flock", "grep", "gzip", "head",
	"mkdir", "mv", "python3", "rm", "sed", "sha256sum", "tail", "timeout", "touch", "tr", "uname", "wc"}

// stubs of commands: each is written to the log first.
var stubs = map[string]string{
	"chronyc": `case $1 in waitsync) ! takes clock;; esac`, "timedatectl": "", "journalctl": "echo fatal: no configuration",
	"systemctl": `case "$*" in
"restart slurmd"|"start slurmd") $ROOT/usr/local/sbin/burst-slurmd; touch $DESK/active;;
"is-active --quiet slurmd") [ -e $DESK/active ] && ! takes slurmd;; esac`,
	"munge": `printf 'MUNGE:%s:' "$(base64 -w0)"`,
	"unmunge": `c=$(cat); c=${c#MUNGE:}; uid=0; case $c in *@*) uid=${c%%@*}; c=${c#*@};; esac
[ "$1" = -m ] || exit 0
printf 'STATUS:           Success (0)\nUID:              some (%s)\nGID:              root (0)\n' $uid >$2
printf %s "${c%:}" | base64 -d >$4`,
	"munged": "", "chown": "", "install": "", "nft": "cat >/dev/null", "ss": "echo slurmd", "hostname": "", "setsid": "",
	"runuser": `[ "$4" != curl ]`, "slurmd": `[ "$1" != -V ] || echo slurm-wlm 22.05.8`,
	"id": `[ ! -e $DESK/user ] || cat $DESK/user`, "usermod": "", "useradd": "", "groupadd": "", "getent": "",
	"mount":      `takes mount && { echo mount.nfs: Connection timed out >&2; exit 32; }; for last; do :; done; echo "$last" >>$DESK/mounts`,
	"mountpoint": `grep -qsxF "$2" $DESK/mounts`, "mount.nfs4": "", "mount.efs": "", "mount.lustre": "", "cvmfs_config": "",
	"sssd": "", "burst-agent": "",
	"exportfs": `[ "$1" != -s ] || sed 's/ /  /' $ROOT/etc/exports.d/burst.exports`,
	"ip":       `echo '10.1.0.1 dev eth0 scope link src 10.1.2.3'; echo '10.1.0.0/20 dev eth0 proto kernel scope link src 10.1.2.3 metric 512'`,
	"sleep":    `read u _ <$DESK/uptime; echo $((u + ${1%%.*} + 1)) >$DESK/uptime`,
}

// takes fails, or lets wait, as often as a file of the state says.
const prelude = `#!/bin/sh
echo "${0##*/} $*" >>$DESK/log
takes() { n=; { read -r n <$DESK/$1; } 2>/dev/null; n=${n:-0}; [ $n != 0 ] && echo $((n - 1)) >$DESK/$1; }
`

// oneOfSeveral skips a boot in -short that differs little from another one: each takes some
// hundred processes. make test has them all.
func oneOfSeveral(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one boot of several; make test has them all")
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{T: t, root: dir + "/root", bin: dir + "/bin", state: dir + "/state", instance: "i-0a1b", script: UserData,
		trouble: map[string]int{}, refuse: map[string]string{}, missing: map[string]string{}, forge: func(*answer) {}}
	for _, d := range []string{w.bin, w.state, w.root + "/run/systemd/system", w.root + "/etc/munge", w.root + "/etc/cvmfs/default.d", w.root + "/etc/sssd", w.root + "/etc/cloud/cloud.cfg.d"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write(w.root+"/etc/chrony.conf", "pool 2.amazon.pool.ntp.org iburst\n")
	w.write(w.root+"/etc/sssd/sssd.conf", "[sssd]\n")
	w.write(w.state+"/uptime", "20\n")
	for _, name := range hostTools {
		if err := os.Symlink(w.find(name), filepath.Join(w.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range stubs {
		w.stub(name, script)
	}
	w.munge = func(p []byte) string { return "MUNGE:" + base64.StdEncoding.EncodeToString(p) + ":" }
	w.unmunge = func(c string) string {
		p, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(c, "MUNGE:"), ":"))
		if err != nil {
			return err.Error()
		}
		return string(p)
	}
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(server.Close)
	w.url = server.URL
	w.config = Config{URLs: []string{w.url}, ConfServers: []string{"ctl:6817", "ctl2"}, SlurmVersion: "22.05.8", MungeKey: "ssm:/burst/munge-key", KeyEndpoint: w.url}
	return w
}

// find looks for the system's own tool first: a wrapper of a user's could need more of the host.
func (w *world) find(name string) string {
	for _, dir := range []string{"/usr/bin/", "/bin/"} {
		if _, err := os.Stat(dir + name); err == nil {
			return dir + name
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		w.Fatal(err)
	}
	return found
}

func (w *world) write(path, text string) {
	w.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(path string) string {
	w.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func (w *world) stub(name, script string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.bin, name), []byte(prelude+script+"\n"), 0o755); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(names ...string) {
	w.Helper()
	for _, n := range names {
		if err := os.RemoveAll(filepath.Join(w.bin, n)); err != nil {
			w.Fatal(err)
		}
	}
}

// times makes the named stub fail, or wait, so often.
func (w *world) times(name string, n int) { w.write(w.state+"/"+name, fmt.Sprint(n)) }

// result is how one run of the script went.
type result struct {
	code    int
	console string
	calls   []string // of commands and of the server, in their order
}

// run runs the script as cloud-init does.
func (w *world) run(env ...string) result {
	w.Helper()
	data, err := w.script(w.config)
	if err != nil {
		w.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(w.root), "part-001")
	w.write(file, data)
	w.write(w.state+"/log", "")
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute) // a boot takes a second
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "bash"), file)
	cmd.WaitDelay, cmd.Dir = time.Second, filepath.Dir(w.root)
	cmd.Env = append([]string{"PATH=" + w.bin, "BURST_PATH=" + w.bin, "BURST_ROOT=" + w.root, "BURST_IMDS=" + w.url,
		"BURST_UPTIME=" + w.state + "/uptime", "ROOT=" + w.root, "DESK=" + w.state, "HOME=" + w.root}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.Fatal(err)
	}
	calls := strings.Split(strings.TrimSuffix(w.read(w.state+"/log"), "\n"), "\n")
	return result{code: cmd.ProcessState.ExitCode(), console: string(out), calls: calls}
}

// succeed runs the script, which must end well.
func (w *world) succeed(env ...string) result {
	w.Helper()
	r := w.run(env...)
	if r.code != 0 {
		w.Fatalf("exit code %d\n%s\n%s", r.code, r.console, w.read(w.root+"/var/log/burst-bootstrap.log"))
	}
	return r
}

// index is where the first call that begins so is; -1 if none does.
func (r result) index(prefix string) int {
	return slices.IndexFunc(r.calls, func(c string) bool { return strings.HasPrefix(c, prefix) })
}

func (r result) count(prefix string) (n int) {
	for _, c := range r.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// serve is the metadata service, AWS and burstd.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.Error(err)
	}
	switch p := r.URL.Path; {
	case p == "/latest/api/token":
		if r.Method == http.MethodPut && w.passes(rw, "token") {
			fmt.Fprint(rw, "sesame")
		}
	case strings.HasPrefix(p, "/latest/"):
		values := map[string]string{"instance-id": w.instance, "local-ipv4": "10.1.2.3", "services/domain": "amazonaws.com", "placement/region": "eu-north-1",
			"iam/security-credentials/": "role", "iam/security-credentials/role": `{"AccessKeyId":"AKID","SecretAccessKey":"hidden/secret","Token":"session-token"}`}
		v, ok := values[strings.TrimPrefix(p, "/latest/meta-data/")]
		if !ok || r.Header.Get("X-Aws-Ec2-Metadata-Token") != "sesame" || w.refuse[p] != "" {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(rw, v)
	case p == "/":
		w.serveKey(rw, r, body)
	default:
		w.serveBurstd(rw, r, body)
	}
}

// passes writes the call down, and whether it goes well this time.
func (w *world) passes(rw http.ResponseWriter, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	call, _, _ := strings.Cut(name, " ")
	log, err := os.OpenFile(w.state+"/log", os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(log, "@%s\n", name)
		log.Close()
	}
	if err != nil {
		w.Error(err)
	}
	if w.trouble[call] > 0 {
		w.trouble[call]--
		http.Error(rw, `{"error":"not known yet"}`, http.StatusServiceUnavailable)
		return false
	}
	if why := w.refuse[call]; why != "" {
		http.Error(rw, why, http.StatusForbidden)
		return false
	}
	if why := w.missing[call]; why != "" {
		http.Error(rw, why, http.StatusNotFound)
		return false
	}
	return true
}

func (w *world) serveBurstd(rw http.ResponseWriter, r *http.Request, body []byte) {
	var ask struct{ Instance, Stage, Text string }
	if err := json.Unmarshal(body, &ask); err != nil || ask.Instance != w.instance {
		w.Errorf("burstd is sent %q: %v", body, err)
	}
	credential, _ := strings.CutPrefix(r.Header.Get("Authorization"), "MUNGE ")
	if got, want := w.unmunge(credential), fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, sum(body)); got != want {
		w.Errorf("the credential holds %q, want %q", got, want)
	}
	name, reply := strings.TrimPrefix(r.URL.Path, "/v1/node/"), "{}"
	if name == "whoami" {
		reply = fmt.Sprintf(`{"instance":%q,"node":"c1","cluster":"f00d","slurm":"22.05.8","servers":%q}`, w.instance, w.servers)
	}
	if name == "agent" {
		reply = w.agent
	}
	if !w.passes(rw, strings.TrimSpace(name+" "+ask.Stage+" "+ask.Text)) {
		return
	}
	a := answer{body: reply, signed: sum([]byte(reply))}
	w.forge(&a)
	if !a.unsigned {
		c := w.munge([]byte(a.signed))
		if a.uid != 0 {
			c = strings.Replace(c, ":", fmt.Sprintf(":%d@", a.uid), 1)
		}
		rw.Header().Set("Burst-Credential", c)
	}
	fmt.Fprint(rw, a.body)
}

func (w *world) getuid() string { return fmt.Sprint(os.Getuid()) }

func (w *world) removeAll(path string) {
	w.Helper()
	if err := os.RemoveAll(path); err != nil {
		w.Fatal(err)
	}
}

// command runs a script of the machine.
func (w *world) command(path string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), path)
	cmd.Env = []string{"PATH=" + w.bin, "DESK=" + w.state, "ROOT=" + w.root}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}
