package bootstrap

import (
	"crypto/rand"
	"encoding/base64"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func good() Config {
	return Config{URLs: []string{"http://10.0.0.5:9811/"}, ConfServers: []string{"ctl", "10.0.0.6:6817"}, MungeKey: "image"}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*Config)
		want  string
	}{
		{"good", func(*Config) {}, ""},
		{"nothing", func(c *Config) { *c = Config{} }, `urls of burstd are missing: nodes ask there which node they are
conf servers are missing: name the hosts of slurmctld
munge key "": want ssm:/name, secretsmanager:name or image`},
		{"url", func(c *Config) { c.URLs = []string{"10.0.0.5:9811"} }, `url "10.0.0.5:9811": want http://host:port`},
		{"empty url", func(c *Config) { c.URLs = append(c.URLs, "") }, "a url of burstd is empty"},
		{"conf server", func(c *Config) { c.ConfServers = []string{"a b", "ctl:70000"} }, `conf server "a b": want host or host:port
conf server "ctl:70000": want host or host:port`},
		{"version", func(c *Config) { c.SlurmVersion = "slurm 22" }, `slurm version "slurm 22": want one like 22.05.8`},
		{"key", func(c *Config) { c.MungeKey = "ssm:a b" }, `munge key "ssm:a b": want ssm:/name, secretsmanager:name or image`},
		{"region", func(c *Config) { c.Region = "x/y" }, `region "x/y": want one like us-east-1`},
		{"ntp", func(c *Config) { c.NTP = "a\nb" }, `ntp "a\nb": want a host or an address`},
		{"slurmd", func(c *Config) { c.Slurmd = "slurmd" }, `slurmd "slurmd": want an absolute path`},
		{"uid", func(c *Config) { c.DaemonUID = -1 }, "a uid is below zero"},
		{"slurm user", func(c *Config) { c.SlurmUser.UID = 7 }, `slurm user "" with uid 7: want its name`},
		{"check", func(c *Config) { c.Users.Check = "-x" }, `user "-x": begins with a dash`},
		{"timeout", func(c *Config) { c.SetupTimeout = -time.Second }, "a timeout is below zero"},
		{"mount kind", func(c *Config) { c.Mounts = []Mount{{Kind: "smb", Source: "x", Target: "/x"}} }, `mount smb x: kind "smb": want nfs, efs, fsx or cvmfs`},
		{"target", func(c *Config) { c.Mounts = []Mount{{Kind: "nfs", Source: "h:/x", Target: "home"}} }, `mount nfs h:/x: target "home": want an absolute path`},
		{"root", func(c *Config) { c.Mounts = []Mount{{Kind: "nfs", Source: "h:/x", Target: "/../"}} }, `mount nfs h:/x: target /: the root cannot be hidden`},
		{"nfs", func(c *Config) { c.Mounts = []Mount{{Kind: "nfs", Source: "/x", Target: "/x"}} }, `mount nfs /x: source: want host:/path`},
		{"efs", func(c *Config) { c.Mounts = []Mount{{Kind: "efs", Source: "x", Target: "/x"}} }, `mount efs x: source: want fs-0123 or fs-0123:/path`},
		{"fsx", func(c *Config) { c.Mounts = []Mount{{Kind: "fsx", Source: "h:/x", Target: "/x"}} }, `mount fsx h:/x: source: want host@tcp:/name, as FSx shows it under Attach`},
		{"cvmfs", func(c *Config) { c.Mounts = []Mount{{Kind: "cvmfs", Source: "software.eessi.io", Target: "/eessi"}} },
			`mount cvmfs software.eessi.io: target "/eessi": CVMFS has it at /cvmfs/software.eessi.io`},
		{"cvmfs proxy", func(c *Config) { c.Mounts = []Mount{{Kind: "cvmfs", Source: "a.b", Options: "'"}} },
			`mount a.b: options "'": want proxies like http://squid:3128;DIRECT`},
		{"an option", func(c *Config) { c.Mounts = []Mount{{Kind: "nfs", Source: "-h:/x", Target: "/x"}} }, `mount nfs -h:/x: source and options must not begin with a dash`},
		{"newline", func(c *Config) { c.Mounts = []Mount{{Kind: "nfs", Source: "h:/x\n", Target: "/x"}} }, `mount "h:/x\n": has a control character or a newline`},
		{"no text", func(c *Config) { c.Setup = []string{"\xff", "a\x00", " \n"} }, `setup "\xff": is no UTF-8
setup "a\x00": has a control character or a newline
setup: a command is empty`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := good()
			tt.spoil(&c)
			got := ""
			if _, err := UserData(c); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTooLong(t *testing.T) {
	c := good()
	noise := make([]byte, 9<<10)
	rand.Read(noise) // never fails
	c.Setup = []string{base64.StdEncoding.EncodeToString(noise)}
	_, err := UserData(c)
	if err == nil || !strings.Contains(err.Error(), "bytes too long, packed, for the cloud's 16384: move setup commands") {
		t.Error(err)
	}
}

func TestTheSameEachTime(t *testing.T) {
	c := good()
	c.Setup = []string{strings.Repeat("dnf -y install openmpi\n", 500)}
	a, err := UserData(c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := UserData(c)
	if err != nil || a != b || len(a) > Limit {
		t.Errorf("%d and %d bytes, %v", len(a), len(b), err)
	}
	t.Logf("%d bytes", len(a))
	script, err := Script(c)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"packed": a, "plain": script} {
		cmd := exec.Command("bash", "-n")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: bash -n: %v: %s", what, err, out)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, shell := range []string{"bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				words := rapid.SliceOfN(rapid.OneOf(
					rapid.StringMatching("['\"`$\\\\!(){};&|<>*?~# \n\t\r=\\[\\]%-]{0,12}"),
					rapid.StringMatching(`('|\\|\$\(echo x\)|END|\n)*`),
					rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "\x00") }),
				), 1, 30).Draw(t, "words")
				var script strings.Builder
				script.WriteString("printf '%s\\0'")
				for _, w := range words {
					script.WriteString(" " + quote(w))
				}
				out, err := exec.Command(shell, "-c", script.String()).Output()
				if err != nil {
					t.Fatal(err)
				}
				got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
				if diff := cmp.Diff(words, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestHeader shows that whole values arrive in the script's variables.
func TestHeader(t *testing.T) {
	c := good()
	c.Setup = []string{`echo "it's $HOME" \`, "a\nb"}
	c.Mounts = []Mount{{Kind: "nfs", Source: "h:/a b", Target: "/x'y", Options: "ro"}}
	script, err := Script(c)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(script, "\n\n")
	out, err := exec.Command("bash", "-c", head+"\nprintf '%s|' \"${URLS[@]}\" \"${SETUP[@]}\" \"${MOUNTS[@]}\" \"$NTP\" \"$RESUME_TIMEOUT\"").Output()
	want := "http://10.0.0.5:9811|echo \"it's $HOME\" \\|a\nb|nfs|h:/a b|/x'y|ro|169.254.169.123|900|"
	if err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}

func TestFits(t *testing.T) {
	for _, tt := range []struct {
		slurmd, slurmctld string
		want              bool
	}{
		{"22.05.8", "22.05.2", true}, {"22.05.8", "23.02.0", true}, {"22.05.8", "23.11.1", true}, {"22.05.8", "24.05.0", false},
		{"23.02.1", "24.05.0", true}, {"23.02.1", "24.11.0", true}, {"22.05.8", "24.11.0", false}, {"24.05.1", "25.11", true},
		{"23.11.1", "25.11.0", false}, {"23.02.0", "22.05.8", false}, {"25.05.3", "25.05.0", true}, {"20.11.9", "21.08.8", true},
		{"25.11.0", "26.05.0", true}, {"19.05.1", "21.08.0", false},
	} {
		t.Run(tt.slurmd+" under "+tt.slurmctld, func(t *testing.T) {
			_, text, _ := strings.Cut(slurm, "\n")
			script := "die() { echo \"$*\"; exit 1; }\nSLURMD=slurmd\nslurmd() { echo slurm-wlm " + tt.slurmd + "; }\n" + text + "\nfits " + tt.slurmctld
			out, err := exec.Command("bash", "-c", script).CombinedOutput()
			if (err == nil) != tt.want {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
