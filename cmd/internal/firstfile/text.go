package firstfile

import (
	"fmt"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// writer writes keys with what they mean above them.
type writer struct{ strings.Builder }

// section begins a table.
func (w *writer) section(comment, header string) {
	w.WriteString("\n")
	w.comment(comment)
	w.WriteString("[" + header + "]\n")
}

func (w *writer) comment(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		w.WriteString("# " + line + "\n")
	}
}

// set writes a key, with its value as TOML has it.
func (w *writer) set(comment, key, value string) {
	w.comment(comment)
	fmt.Fprintf(w, "%s = %s\n", key, value)
}

func quote(text string) string { return `"` + text + `"` }

// list is an answer with commas as a list.
func list(answer string) string {
	var all []string
	for _, word := range strings.Split(answer, ",") {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, quote(word))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// Text is the file that the answers make. It holds no secret.
func Text(f Found, a Answers) string {
	w := &writer{}
	w.comment("The configuration of Burst: which cloud nodes Slurm may use, and where they come from.\n" +
		"Made by \"burst init\" of a few answers. There is more to set: burst.toml(5) describes every key,\n" +
		"and \"burst init --stdout\" shows all of them. After a change run \"burst check\", then\n" +
		"\"systemctl restart burstd\".")
	w.WriteString("\n")
	w.set("The name of this cluster. Instances carry it as a tag.", "cluster", quote(a["cluster"]))
	w.slurm(f)
	if a["provider"] != "local" {
		w.section("burstd.", "daemon")
		w.set("Where nodes ask which node they are: this host's name as they know it, and a port\nthat they reach.", "listen", quote(a["listen"]))
	}
	switch a["provider"] {
	case "aws":
		w.aws(a)
	case "vultr":
		w.vultr(a)
	default:
		w.local(a)
	}
	return w.String()
}

func (w *writer) slurm(f Found) {
	conf := f.SlurmConf != "" && !f.Usual
	user := f.SlurmUser != "" && f.SlurmUser != "slurm"
	if !conf && !user {
		return
	}
	w.section("How Slurm is reached.", "slurm")
	if conf {
		w.set("slurm.conf, which is not in its usual place.", "conf", quote(f.SlurmConf))
	}
	if user {
		w.set("SlurmUser of slurm.conf: orders are taken from it and from root only.", "user", quote(f.SlurmUser))
	}
}

// pool writes what all kinds of pools have, after its header.
func (w *writer) pool(a Answers, provider string) {
	w.set("The provider above.", "provider", quote(provider))
	w.set("The names in Slurm, as many as there may be at once.", "nodes", quote(a["nodes"]))
	w.set("A partition for cloud nodes alone: its idle nodes are powered down.", "partition", quote(a["partition"]))
}

const aPool = "A pool is a set of nodes that share a provider, an image and these rules."

func (w *writer) local(a Answers) {
	w.section("A provider is a place that instances come from. Kind \"local\" needs no cloud and costs\n"+
		"nothing: its instances are slurmd processes on this host.", "provider.here")
	w.set("\"local\", \"aws\" or \"vultr\".", "kind", `"local"`)
	w.section(aPool, "pool.try")
	w.pool(a, "here")
	w.set("Types are only names here.", "instance_types", `["small"]`)
	w.set("What jobs see of a node.", "cpus", "1")
	w.set("Memory in MiB.", "real_memory", "500")
	nodes := 4
	if all, err := hostlist.Expand(a["nodes"]); err == nil {
		nodes = len(all)
	}
	ports := "17001"
	if nodes > 1 {
		ports = fmt.Sprintf("17001-%d", 17000+nodes)
	}
	w.set("A port for each node: all of them have this host's address.", "ports", quote(ports))
	w.set("A node that was powered down may be used again after this time: its process is gone at once.", "suspend_timeout", `"15s"`)
}

func (w *writer) aws(a Answers) {
	w.section("A provider is a place that instances come from: a region of Amazon EC2.", "provider.aws")
	w.set("\"local\", \"aws\" or \"vultr\".", "kind", `"aws"`)
	w.set("All its pools are there.", "region", quote(a["region"]))
	if a["profile"] != "" {
		w.set("A profile of the shared credentials file. burstd reads neither /home nor /root: docs/aws.md\nsays how it finds the file.", "profile", quote(a["profile"]))
	}
	w.section(aPool, "pool.cloud")
	w.pool(a, "aws")
	w.set("What may be bought, in order of preference. CPUs and memory of the least are what Slurm sees.", "instance_types", list(a["types"]))
	w.set("\"spot\", \"on-demand\" or \"spot-then-on-demand\": spot costs less, and may be taken away.", "market", `"on-demand"`)
	w.set("What nodes boot: slurmd of this cluster's version and MUNGE are on it, or packages has them installed.", "image", quote(a["image"]))
	if strings.HasPrefix(a["image"], "ssm:/aws/") {
		w.set("Install what such an image lacks of slurmd, MUNGE and clients of the mounts.", "packages", "true")
	}
	w.folders(a)
	w.set("One subnet for each zone.", "subnets", list(a["subnets"]))
	if a["security-groups"] != "" {
		w.set("What may reach the nodes: slurmctld and the login nodes, and the nodes each other.", "security_groups", list(a["security-groups"]))
	}
	w.set("Where nodes get the cluster's MUNGE key.", "munge_key", quote(a["munge-key"]))
	if a["instance-profile"] != "" {
		w.set("The role of the nodes: it may read the MUNGE key, and nothing else.", "instance_profile", quote(a["instance-profile"]))
	}
}

func (w *writer) vultr(a Answers) {
	w.section("A provider is a place that instances come from: a region of Vultr.", "provider.vultr")
	w.set("\"local\", \"aws\" or \"vultr\".", "kind", `"vultr"`)
	w.set("Its three letters.", "region", quote(a["region"]))
	w.set("The API key alone, on one line, readable for SlurmUser only.", "api_key_file", quote(a["api-key-file"]))
	w.section(aPool, "pool.cloud")
	w.pool(a, "vultr")
	w.set("The plans that may be bought, in order of preference. CPUs and memory of the least are what\nSlurm sees.", "instance_types", list(a["types"]))
	w.set("What nodes boot: slurmd of this cluster's version and MUNGE are on it, or packages has them installed.", "image", quote(a["image"]))
	if strings.HasPrefix(a["image"], "os:") {
		w.set("Install what such an image lacks of slurmd, MUNGE and clients of the mounts.", "packages", "true")
	}
	w.folders(a)
	if a["vpc"] != "" {
		w.set("The VPC network by which nodes reach this host.", "vpc", quote(a["vpc"]))
	}
	w.set("Where nodes get the cluster's MUNGE key: burstd sends a copy over SSH, or the image has it.", "munge_key", quote(a["munge-key"]))
	w.set("The public key that instances are given.", "ssh_public_key", quote(a["ssh-key"]+".pub"))
	w.set("How burstd logs in to set a node up. By the word in its user data an instance proves who it is.", "ssh", fmt.Sprintf(`{ key = %q, host_key = "user-data" }`, a["ssh-key"]))
}
