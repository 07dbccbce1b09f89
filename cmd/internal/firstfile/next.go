package firstfile

import (
	"fmt"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

// Next are the commands that come after the file is written at path, with what each is for; user is SlurmUser.
func Next(f Found, a Answers, path, user string) []string {
	conf := first(f.SlurmConf, "/etc/slurm/slurm.conf")
	host, others := f.place()
	rows := [][2]string{}
	add := func(command, why string) { rows = append(rows, [2]string{command, why}) }
	if host != "" { // a second burstd, with a journal of its own, would launch all again
		add("burst init", "run it on "+host+", and all that it says there: burstd runs there only, never on a backup")
		return lines(rows)
	}
	if path != endpoint.DefaultPath {
		add("cp "+path+" "+endpoint.DefaultPath, "where slurmctld's programs and burstd read it")
	}
	switch a["provider"] {
	case "local":
		add("mkdir -p /etc/systemd/system/burstd.service.d", "its nodes run users' jobs: burstd must be root")
		add("cp /usr/share/doc/burst/burstd-local.conf /etc/systemd/system/burstd.service.d/local.conf", "")
		add("systemctl daemon-reload", "")
	case "aws":
		add("burstd --cluster-id", "the cluster's id, made once: the policy of contrib/aws asks for it")
		add("burst aws check", "credentials, permissions, network; docs/aws.md, of the MUNGE key too")
	case "vultr":
		if !f.APIKey {
			add(fmt.Sprintf("install -m 0400 -o %s /dev/stdin %s", user, a["api-key-file"]), "paste the API key, then Ctrl-D")
		}
		add(fmt.Sprintf("ssh-keygen -q -t ed25519 -N '' -f %s && chown %s %[1]s", a["ssh-key"], user), "unless there is one")
		if path, sent := strings.CutPrefix(a["munge-key"], "ssh:"); sent && !f.MungeKey {
			add(fmt.Sprintf("install -m 0400 -o %s /etc/munge/munge.key %s", user, path), "the copy that nodes are given")
		}
	}
	add("burst check", "what is wrong, and what to do; again after each step")
	add("burst genconf --diff >burst.diff", "what to change in "+conf+": look at it, some is by hand")
	add("patch -p1 -d / <burst.diff", "the same files on all hosts")
	restart := "and slurmd on your own nodes: jobs go on through it"
	if a["provider"] == "local" {
		restart = "and slurmd, on nodes drained first: SlurmdSpoolDir is another, and jobs of before are lost to Slurm"
	}
	add("systemctl restart slurmctld", restart)
	why := ""
	if others != "" {
		why = "on this host only, not on " + others
	}
	add("systemctl enable --now burstd", why)
	job, why := "sbatch -p "+a["partition"]+" --wrap hostname", "the first job; burst events --follow"
	switch {
	case a["provider"] == "local": // whose nodes have all folders
	case a["folders"] == "": // a job that cannot write its output ends at once
		job, why = "sbatch -p "+a["partition"]+" -D /tmp -o /dev/null --wrap hostname", "the first job, which writes nothing: nodes have no folder of the site's; burst events --follow"
	default:
		why = "the first job, from a folder that nodes have; burst events --follow"
	}
	add(job, why)
	return lines(rows)
}

// lines are the rows, with the comments below each other.
func lines(rows [][2]string) []string {
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = "  " + r[0]
		if r[1] != "" {
			lines[i] = fmt.Sprintf("  %-42s  # %s", r[0], r[1])
		}
	}
	return lines
}

// place is where burstd is to run, of several hosts of slurmctld, "" for this one, and the others.
func (f Found) place() (host, others string) {
	if len(f.Ctlds) < 2 {
		return "", ""
	}
	short, _, _ := strings.Cut(f.Host, ".")
	if !strings.EqualFold(short, f.Ctlds[0]) {
		host = f.Ctlds[0]
	}
	return host, strings.Join(f.Ctlds[1:], ", ")
}
