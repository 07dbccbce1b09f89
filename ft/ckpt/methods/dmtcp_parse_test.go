package methods

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func TestDMTCPVersion(t *testing.T) {
	for _, c := range []struct{ name, out, version, fails string }{
		{"4.2.0", "dmtcp_launch (DMTCP) 4.2.0\nLicense LGPLv3+: GNU LGPL version 3 or later\n", "4.2.0", ""},
		{"5 before its release", "dmtcp_launch (DMTCP) 5.0\nLicense LGPLv3+", "5.0", ""},
		{"of a branch", "dmtcp_launch (DMTCP) v4.3.0-rc1+git\n", "4.3.0-rc1+git", ""},
		{"a little too old", "dmtcp_launch (DMTCP) 4.1.1\n", "", "version 4.1.1 is too old: 4.2 or later is needed"},
		{"no minor version", "dmtcp_launch (DMTCP) 5\n", "", "does not say which"},
		{"two digits", "dmtcp_launch (DMTCP) 12.1\n", "12.1", ""},
		{"too old", "dmtcp_launch (DMTCP) 3.2.0\n", "", "version 3.2.0 is too old: 4.2 or later is needed"},
		{"much too old", "dmtcp_launch (DMTCP) 2.6.0\n", "", "too old"},
		{"another program", "bash: dmtcp_launch: cannot execute\n", "", `does not say which: "bash: dmtcp_launch: cannot execute"`},
		{"nothing", "", "", "does not say which"},
		{"a number without end", "(DMTCP) 99999999999999999999999.1", "", "does not say which"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseDMTCPVersion(c.out)
			if got != c.version || (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.version, c.fails)
			}
		})
	}
}

// captured reads what a real coordinator or command has printed.
func captured(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "dmtcp", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDMTCPLog(t *testing.T) {
	for _, version := range []string{"4.2.0", "5.0"} {
		t.Run(version, func(t *testing.T) {
			log := captured(t, version+"-coordinator.log")
			script := parseScript(log)
			if !strings.HasPrefix(script, "/scratch/") || !strings.HasSuffix(script, ".sh") {
				t.Errorf("script %q", script)
			}
			if !killedByOther(log) {
				t.Error("the -k is not seen")
			}
			if !joinedLine.MatchString(log) || !execLine.MatchString(log) || !leftLine.MatchString(log) {
				t.Error("a process that came, or became the program, or left, is not seen")
			}
			begin := strings.Index(log, beginLine)
			end := begin + strings.Index(log[begin:], "Wrote restart script")
			for name, part := range map[string]string{"before it began": log[:begin], "while it is written": log[:end]} {
				if got := parseScript(part); got != "" {
					t.Errorf("%s: script %q", name, got)
				}
			}
			// One that was late ends after our look, and then ours begins.
			if late := log[begin+len(beginLine):]; parseScript(late) != "" || parseScript(late+log[:end]) != "" {
				t.Error("the end of an earlier checkpoint is taken for this one's")
			}
			ended := captured(t, version+"-ended.log")
			if killedByOther(ended) {
				t.Error("a step that ended by itself was not killed")
			}
			if joined := captured(t, version+"-noprogram.log"); execLine.MatchString(joined) || !joinedLine.MatchString(joined) {
				t.Error("a program that is not there has not run")
			}
		})
	}
	if !killedByOther("x; killing all connected peers and quitting ...\nlast client exited, shutting down..") {
		t.Error("dmtcp_command -q is not seen")
	}
}

func TestDMTCPAnswers(t *testing.T) {
	for _, version := range []string{"4.2.0", "5.0"} {
		if !parseRunning(captured(t, version+"-status.txt")) {
			t.Errorf("%s: not seen to run", version)
		}
		if pids, all := parseClients(captured(t, version+"-list.txt"), "node1"); !all || len(pids) != 3 || slices.Contains(pids, 0) {
			t.Errorf("%s: processes %v, all %v", version, pids, all)
		}
		if _, all := parseClients(captured(t, version+"-list.txt"), "node2"); all {
			t.Errorf("%s: all on another host", version)
		}
		if n := parseProcesses(captured(t, version+"-script.txt")); n != 3 {
			t.Errorf("%s: %d processes", version, n)
		}
	}
	for name, out := range map[string]string{
		"none":       "Status...\n  NUM_PEERS=0\n  RUNNING=yes\n",
		"restarting": "Status...\n  NUM_PEERS=2\n  RUNNING=no\n",
		"nothing":    "",
		"cut off":    "  NUM_PEERS=2\n  RUNN",
	} {
		if parseRunning(out) {
			t.Errorf("%s: seen to run", name)
		}
	}
	for text, port := range map[string]int{"4321\n": 4321, "": 0, "43": 43, "-1": 0, "65536": 0, "x": 0, "4321 1": 0} {
		if got := parsePort(text); got != port {
			t.Errorf("port of %q: %d, want %d", text, got, port)
		}
	}
	if n := parseProcesses("# Number of processes in the computation = 99999999999999999999\n"); n != 0 {
		t.Errorf("%d processes", n)
	}
}

func FuzzDMTCP(f *testing.F) {
	for _, name := range []string{"4.2.0-coordinator.log", "5.0-coordinator.log", "4.2.0-status.txt", "4.2.0-list.txt", "5.0-list.txt", "4.2.0-script.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", "dmtcp", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s := parseScript(text); s != "" && (!strings.HasSuffix(s, ".sh") || strings.Contains(s, "\n")) {
			t.Errorf("script %q", s)
		}
		if pids, all := parseClients(text, "node1"); all && len(pids) == 0 {
			t.Error("all of none")
		}
		if n := parseProcesses(text); n < 0 {
			t.Errorf("%d processes", n)
		}
		if n := imageSize(text, text); n < 0 {
			t.Errorf("an image of %d bytes", n)
		}
		if v, err := parseDMTCPVersion(text); (err == nil) != (v != "") {
			t.Errorf("%q, %v", v, err)
		}
		killedByOther(text)
		parseRunning(text)
	})
}

func TestDMTCPImageSize(t *testing.T) {
	status := "Name:\tcount\nVmRSS:\t  999999 kB\nRssAnon:\t    8192 kB\nRssFile:\t  999999 kB\nRssShmem:\t       0 kB\nVmSwap:\t    8192 kB\n"
	maps := "00400000-00500000 r-xp 00000000 fe:00 12 /opt/a program\n" + // a MiB
		"00600000-00700000 ---p 00000000 fe:00 12 /usr/lib/libc.so.6\n" + // written too
		"7f0000000000-7f1000000000 rw-p 00000000 00:00 0\n" +
		"7f2000000000-7f2010000000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n" +
		"7f3000000000-7f3010000000 rw-s 00000000 fe:00 7 /tmp/t/dmtcp-ada@n1/dmtcpSharedArea.98ff-1-2.3\n" +
		"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\nrubbish\n5-4 r--p 0 0 0 /x\n"
	if got, want := imageSize(status, maps), int64(16+2+2+4)<<20; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if got := imageSize("", ""); got <= 0 {
		t.Errorf("%d bytes for a process of which nothing is known", got)
	}
}

func TestDMTCPFits(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mpirun"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		args    string
		program int
		env     string
		fails   string
	}{
		{"a program", "/bin/true", 0, "", ""},
		{"of PATH", "true", 0, "PATH=/bin", ""},
		{"not there", dir + "/no", 0, "", "no such file"},
		{"no program", plain, 0, "", "is not a program"},
		{"not on PATH", "true", 0, "PATH=/nonexistent", "not found on PATH"},
		{"srun", "srun -n 1 ./a", 3, "SLURM_NTASKS=4", ""},
		{"srun of more", "srun -n 4 ./a", 3, "", "one task below srun, and the step has 4"},
		{"srun, joined", "srun -n4 ./a", 2, "", "has 4"},
		{"srun, long", "srun --ntasks=4 ./a", 2, "", "has 4"},
		{"srun, per node", "srun -N1 --ntasks-per-node 2 ./a", 4, "", "has 2"},
		{"srun, nodes", "srun -N2 ./a", 2, "", "has 2"},
		{"srun, one of the job's tasks", "srun -n1 ./a", 2, "SLURM_NTASKS=8", ""},
		{"the job's tasks", "srun ./a", 1, "SLURM_NTASKS=8", "has 8"},
		{"a program's own -n", "srun ./a -n 4", 1, "", ""},
		{"mpirun on one node", "mpirun -n 4 ./a", 3, "SLURM_JOB_NUM_NODES=1", ""},
		{"mpirun on two", "/opt/bin/mpiexec -n 4 ./a", 3, "SLURM_JOB_NUM_NODES=2", "on one node only, and the job has 2"},
		{"mpirun of salloc", "mpirun -n 4 ./a", 3, "SLURM_JOB_ID=7", "none of the job's"},
		{"mpirun below srun", "srun mpirun ./a", 1, "SLURM_NTASKS=4", ""},
		{"mpirun below srun, once", "srun -n1 -N1 mpirun ./a", 3, "SLURM_NTASKS=4", ""},
		{"four mpiruns", "srun -n4 mpirun ./a", 2, "", "leave out the number of tasks"},
		{"mpirun below srun, two nodes", "srun mpirun ./a", 1, "SLURM_JOB_NUM_NODES=2", "on one node only, and the job has 2"},
		{"an option without value", "srun -n", 1, "", ""},
		{"no command", "srun", 1, "", "no program is given"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := launch{Args: strings.Fields(c.args), Program: c.program, Scratch: dir, Env: []string{"PATH=" + dir, c.env}}.aloneMPI()
			err := l.fitsDMTCP()
			if (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v; want %q", err, c.fails)
			}
		})
	}
	if err := (launch{Args: []string{"/bin/true"}, Scratch: "here"}).fitsDMTCP(); err == nil {
		t.Error("a relative scratch folder is taken")
	}
}

func TestDMTCPArgs(t *testing.T) {
	s := &dmtcpStep{
		dmtcpRoom:   dmtcpRoom{images: "/s/images", temp: "/tmp/t"},
		tools:       dmtcpTools{launch: "/d/dmtcp_launch", restart: "/d/dmtcp_restart"},
		coordinator: &coordinator{host: "10.0.0.1", port: 7},
	}
	const join = " -j -h 10.0.0.1 -p 7 --ckptdir /s/images --tmpdir /tmp/t "
	mpi := strings.Join(openMPISettings, " ")
	for _, c := range []struct {
		name, args string
		program    int
		tasks      string
		images     []string
		want       string
	}{
		{"alone", "./a -n 3", 0, "", nil, "/d/dmtcp_launch --no-gzip" + join + "./a -n 3"},
		{"below srun", "srun -n1 ./a b", 2, "4", nil, "srun -n1 /d/dmtcp_launch --no-gzip" + join + "./a b"},
		{"mpirun", "mpirun -n 2 ./a b", 3, "4", nil, "/d/dmtcp_launch --no-gzip" + join + "mpirun " + mpi + " -n 2 ./a b"},
		{"mpirun without a number", "mpirun -q ./a -n 9", 2, "4", nil, "/d/dmtcp_launch --no-gzip" + join + "mpirun " + mpi + " -n 4 -q ./a -n 9"},
		{"mpirun as the user's own", "mpirun -np 2 ./a", 0, "4", nil, "/d/dmtcp_launch --no-gzip" + join + "mpirun " + mpi + " -np 2 ./a"},
		{"mpirun below srun", "srun -N1 mpirun --mca btl self -x A=1 ./a -n 2", 2, "4", nil, "/d/dmtcp_launch --no-gzip" + join + "mpirun " + mpi + " -n 4 --mca btl self -x A=1 ./a -n 2"},
		{"mpirun with a number, late", "mpirun --mca btl self -q --np 2 ./a", 0, "4", nil, "/d/dmtcp_launch --no-gzip" + join + "mpirun " + mpi + " --mca btl self -q --np 2 ./a"},
		{"restart", "./a", 0, "", []string{"/g/1", "/g/2"}, "/d/dmtcp_restart" + join + "/g/1 /g/2"},
		{"restart below srun", "srun -n1 ./a", 2, "", []string{"/g/1"}, "srun -n1 /d/dmtcp_restart" + join + "/g/1"},
		{"restart of mpirun", "mpirun -n 2 ./a", 3, "", []string{"/g/1"}, "/d/dmtcp_restart" + join + "/g/1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := launch{Args: strings.Fields(c.args), Program: c.program, Env: []string{"SLURM_NTASKS=" + c.tasks}}.aloneMPI()
			before := slices.Clone(l.Args)
			if got := strings.Join(l.dmtcpArgs(s, c.images), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !slices.Equal(before, l.Args) {
				t.Error("the launch's own arguments were changed")
			}
		})
	}
}

func TestDMTCPHost(t *testing.T) {
	for _, c := range []struct {
		name, args string
		program    int
		env        []string
		local      bool
	}{
		{"alone", "./a", 0, nil, true},
		{"mpirun", "mpirun ./a", 1, nil, true},
		{"srun on the batch host", "srun ./a", 1, []string{"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=1", "SLURMD_NODENAME=n1"}, true},
		{"srun of salloc", "srun ./a", 1, []string{"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=1"}, false},
		{"srun on one of two", "srun ./a", 1, []string{"SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=2", "SLURMD_NODENAME=n1"}, false},
	} {
		got := launch{Args: strings.Fields(c.args), Program: c.program, Env: c.env}.dmtcpHost()
		if ip := net.ParseIP(got); ip == nil || c.local != (got == loopback) && hasAddress(t) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// hasAddress says whether this host has another address than loopback ones.
func hasAddress(t *testing.T) bool {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast()
	})
}

func TestDMTCPEnvironment(t *testing.T) {
	env := quietDMTCP([]string{"A=1", "DMTCP_COORD_PORT=7779", "DMTCP_SIGCKPT=10", "DMTCP_QUIET=0"})
	if got := strings.Join(env, " "); got != "A=1 DMTCP_SIGCKPT=10 DMTCP_QUIET=2" {
		t.Errorf("got %s", got)
	}
	if got := (launch{Env: env}).dmtcpSignal(); got != syscall.Signal(10) {
		t.Errorf("signal %v", got)
	}
	if got := (launch{}).dmtcpSignal(); got != syscall.SIGUSR2 {
		t.Errorf("signal %v", got)
	}
}

func TestDMTCPImages(t *testing.T) {
	image := imageMagic + "_v4.0\n and more"
	for _, c := range []struct {
		name  string
		files map[string]string
		ranks int
		fails string
	}{
		{"two", map[string]string{"ckpt_a_1-2-3.dmtcp": image, "ckpt_b_1-2-4.dmtcp": image, "other": "x"}, 2, ""},
		{"not known how many", map[string]string{"ckpt_a_1-2-3.dmtcp": image}, 0, ""},
		{"one is missing", map[string]string{"ckpt_a_1-2-3.dmtcp": image}, 2, "has 1 images, and should have 2"},
		{"none", nil, 0, "has 0 images, and should have 1"},
		{"half of one", map[string]string{"ckpt_a_1-2-3.dmtcp": image[:9]}, 1, "is no image of DMTCP"},
		{"an empty one", map[string]string{"ckpt_a_1-2-3.dmtcp": ""}, 1, "is no image of DMTCP"},
		{"another file", map[string]string{"ckpt_a_1-2-3.dmtcp": strings.Repeat("x", 100)}, 1, "is no image of DMTCP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := imagesOf(&ckpt.Generation{Dir: dir, Manifest: ckpt.Manifest{Ranks: c.ranks}})
			if (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, %v; want %q", got, err, c.fails)
			}
			if err == nil && (len(got) != max(c.ranks, 1) || !filepath.IsAbs(got[0]) || !slices.IsSorted(got)) {
				t.Errorf("got %v", got)
			}
		})
	}
}
