package bootstrap

import (
	"strconv"
	"strings"
	"time"
)

// header writes the values of c as variables of the shell.
func (c Config) header(b *strings.Builder) {
	scalar := func(name, value string) { b.WriteString(name + "=" + quote(value) + "\n") }
	list := func(name string, values []string) {
		b.WriteString(name + "=(")
		for i, v := range values {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(quote(v))
		}
		b.WriteString(")\n")
	}
	var mounts []string
	for _, m := range c.Mounts {
		mounts = append(mounts, m.Kind, m.Source, m.Target, m.Options)
	}
	urls := make([]string, len(c.URLs))
	for i, u := range c.URLs {
		urls[i] = strings.TrimRight(u, "/")
	}
	list("URLS", urls)
	scalar("DAEMON_UID", strconv.Itoa(c.DaemonUID))
	scalar("NO_CHECKPOINTS", flag(c.NoCheckpoints))
	scalar("CONF_SERVERS", strings.Join(c.ConfServers, ","))
	scalar("SLURM_VERSION", c.SlurmVersion)
	scalar("MUNGE_KEY", c.MungeKey)
	scalar("GIVEN", c.given)
	scalar("IMAGE", flag(c.image))
	if c.image {
		scalar("POWER_OFF", flag(c.off))
	}
	scalar("KEY_ENDPOINT", strings.TrimRight(c.KeyEndpoint, "/"))
	scalar("REGION", c.Region)
	scalar("NTP", c.NTP)
	scalar("PACKAGES", flag(c.Packages))
	scalar("SLURMD", c.Slurmd)
	list("SLURMD_OPTIONS", c.SlurmdOptions)
	scalar("SLURM_USER", c.SlurmUser.Name)
	scalar("SLURM_UID", strconv.Itoa(c.SlurmUser.UID))
	scalar("KEEP_HOSTNAME", flag(c.KeepHostname))
	scalar("RESUME_TIMEOUT", seconds(c.ResumeTimeout))
	scalar("SETUP_TIMEOUT", seconds(c.SetupTimeout))
	scalar("SSSD", flag(c.Users.SSSD))
	list("USER_COMMANDS", c.Users.Commands)
	scalar("CHECK_USER", c.Users.Check)
	list("MOUNTS", mounts)
	list("SETUP", c.Setup)
	scalar("EXPORT", c.Export.Folder)
	list("EXPORT_TO", c.Export.To)
}

// quote makes one word of any text without a NUL, for any POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// seconds rounds up, so that no limit becomes none.
func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }
