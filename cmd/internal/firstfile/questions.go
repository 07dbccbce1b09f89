package firstfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Answers are by the name of a question, which is that of its flag.
type Answers map[string]string

// Question is one thing that must be known.
type Question struct {
	Name    string
	Ask     string // in one line
	Help    string // what to answer, and where to look for it; for the flag too
	Kinds   []string
	Example string // in place of an answer, while others are judged
	Empty   bool   // no answer is one
	// Default is the answer of who has none; nil or "" where the site alone knows.
	Default func(f Found, a Answers) string
	None    func(f Found, a Answers) string // why there is no default, where that is not plain; nil, "": it is
}

// Is says whether the question is for those who have answered so far.
func (q Question) Is(a Answers) bool {
	return len(q.Kinds) == 0 || slices.Contains(q.Kinds, a["provider"])
}

var (
	onAWS    = []string{"aws"}
	onVultr  = []string{"vultr"}
	onClouds = []string{"aws", "vultr"}
)

// stock is an image that needs no more than packages = true.
func stock(f Found, a Answers) string { return StockFor(a["provider"], f.Slurm) }

func always(text string) func(Found, Answers) string {
	return func(Found, Answers) string { return text }
}

// Questions are in the order in which they are asked.
var Questions = []Question{
	{Name: "provider", Ask: "Where do nodes come from?", Help: `"local" (processes on this host: to try all of this, for nothing), "aws" or "vultr"`, Default: func(f Found, _ Answers) string {
		switch {
		case f.AWS:
			return "aws"
		case f.Vultr || f.APIKey:
			return "vultr"
		}
		return "local"
	}},
	{Name: "cluster", Ask: "What is this cluster called?", Help: "instances carry the name as a tag", Example: "mycluster", Default: func(f Found, _ Answers) string { return first(f.Cluster, "mycluster") }},
	{Name: "region", Ask: "Which region?", Help: "as in us-east-1", Kinds: onAWS, Example: "us-east-1", Default: func(f Found, _ Answers) string { return f.Region }},
	{Name: "region", Ask: "Which region?", Help: "its three letters, as lhr for London or ewr for New York", Kinds: onVultr, Example: "lhr"},
	{Name: "profile", Ask: "Which profile of AWS's shared files?", Help: "none: the environment of burstd, or this instance's role", Kinds: onAWS, Empty: true, Default: func(f Found, _ Answers) string { return f.Profile }},
	{Name: "api-key-file", Ask: "Which file holds the API key?", Help: "the key alone, on one line, readable for SlurmUser only; it may be written later", Kinds: onVultr, Example: "/etc/burst/vultr.key", Default: always("/etc/burst/vultr.key")},
	{Name: "types", Ask: "Which instance types, the preferred one first?", Help: "with commas, as c6i.2xlarge,c5.2xlarge", Kinds: onAWS, Example: "c6i.2xlarge", Default: always("c6i.2xlarge")},
	{Name: "types", Ask: "Which plans, the preferred one first?", Help: "with commas, as vhp-8c-16gb-amd", Kinds: onVultr, Example: "vhp-8c-16gb-amd", Default: always("vhp-8c-16gb-amd")},
	{Name: "image", Ask: "Which image?", Help: "an id (ami-…), or a parameter that names one (ssm:/…); docs/aws.md says what must be on it, and \"burst image build\" makes one", Kinds: onAWS, Example: "ami-0123456789abcdef0", Default: stock, None: noStock},
	{Name: "image", Ask: "Which image?", Help: "an operating system (os:…), or a snapshot of yours (snapshot:…), which \"burst image build\" makes", Kinds: onVultr, Example: "os:Debian 12 x64 (bookworm)", Default: stock, None: noStock},
	{Name: "subnets", Ask: "Which subnets?", Help: "ids, one for each zone, with commas: aws ec2 describe-subnets", Kinds: onAWS, Example: "subnet-0123456789abcdef0"},
	{Name: "security-groups", Ask: "Which security groups?", Help: "ids with commas; none: the VPC's default. docs/aws.md says what must be open", Kinds: onAWS, Example: "sg-0123456789abcdef0", Empty: true},
	{Name: "munge-key", Ask: "Where do nodes get the MUNGE key?", Help: `"ssm:/path", "secretsmanager:name", or "image" if the image has it`, Kinds: onAWS, Example: "image", Default: always("ssm:/burst/munge-key")},
	{Name: "munge-key", Ask: "Where do nodes get the MUNGE key?", Help: `"ssh:/file", a copy of it on this host that burstd sends, or "image" if the image has it`, Kinds: onVultr, Example: "image", Default: always("ssh:/etc/burst/munge.key")},
	{Name: "instance-profile", Ask: "Which instance profile do nodes have?", Help: "it may read the MUNGE key, and no more; none if the image has the key", Kinds: onAWS, Example: "burst-node", Empty: true, Default: func(_ Found, a Answers) string {
		if a["munge-key"] == "image" {
			return ""
		}
		return "burst-node"
	}},
	{Name: "vpc", Ask: "Which VPC network?", Help: "its id, by which nodes reach this host; none: their public addresses", Kinds: onVultr, Empty: true, Example: ""},
	{Name: "ssh-key", Ask: "Which key does burstd log in with?", Help: "a private key without passphrase; its public half is beside it as .pub, and may be made later", Kinds: onVultr, Example: "/etc/burst/id_ed25519", Default: always("/etc/burst/id_ed25519")},
	{Name: "folders", Ask: "Which folders of the site do jobs need there, as their homes?", Help: "with commas: SERVER:/path to mount it, SERVER:/path=/target, or /path alone if the image mounts it; " +
		"a job ends at once where its output's folder is not", Kinds: onClouds, Empty: true, Default: mountsHere, None: notMounted},
	{Name: "listen", Ask: "Where do nodes reach this host?", Help: "name or address, and a port that is open to them, as head.example.org:9811", Kinds: onClouds, Example: "head.example.org:9811", Default: func(f Found, _ Answers) string { return f.Host + ":9811" }},
	{Name: "nodes", Ask: "What are the cloud nodes called in Slurm?", Help: "as Slurm writes it, as many as there may be at once, as cloud-[001-010]", Example: "cloud-[001-010]", Default: func(f Found, a Answers) string {
		if a["provider"] == "local" {
			return "try-[1-4]"
		}
		return "cloud-[001-010]"
	}},
	{Name: "partition", Ask: "Which partition are they in?", Help: "a new one, for cloud nodes alone: idle ones are powered down", Example: "cloud", Default: func(f Found, a Answers) string {
		name := "cloud"
		if a["provider"] == "local" {
			name = "try"
		}
		for slices.Contains(f.Taken, name) {
			name += "-burst"
		}
		return name
	}},
}

// Asked are the questions that are for those answers; the first is always among them.
func Asked(a Answers) []Question {
	return slices.DeleteFunc(slices.Clone(Questions), func(q Question) bool { return !q.Is(a) })
}

// Judge says what is wrong with the answer to a question, as burst.toml's own reader has it and what
// the site has already; nil: nothing.
func Judge(f Found, q Question, a Answers) error {
	answer := a[q.Name]
	switch {
	case answer == "" && !q.Empty:
		return errors.New("it cannot do without an answer: " + q.Help)
	case strings.ContainsAny(answer, "\"\\\r\n"):
		return errors.New("it holds a quotation mark, a backslash or a line break")
	case q.Name == "provider":
		if !slices.Contains([]string{"local", "aws", "vultr"}, answer) {
			return fmt.Errorf("%q is none of local, aws and vultr", answer)
		}
		return nil
	case q.Name == "folders":
		if _, err := readFolders(answer, a["provider"]); err != nil {
			return err
		}
	case q.Name == "partition" && slices.Contains(f.Taken, answer):
		return fmt.Errorf("%s has a partition %s already: cloud nodes need one for themselves", f.SlurmConf, answer)
	}
	if q.Name == "nodes" {
		names, err := hostlist.Expand(answer)
		if i := slices.IndexFunc(names, func(n string) bool { return slices.Contains(f.Nodes, n) }); err == nil && i >= 0 {
			return fmt.Errorf("%s has a node %s already: choose other names", f.SlurmConf, names[i])
		}
	}
	// The others' examples are right: what is wrong is this answer's fault.
	probe := Answers{"provider": a["provider"]}
	for _, other := range Asked(a) {
		if other.Name != "provider" {
			probe[other.Name] = other.Example
		}
	}
	probe[q.Name] = answer
	_, err := config.Parse("burst.toml", Text(f, probe))
	var all config.Errors
	if errors.As(err, &all) {
		return errors.New(all[0].What)
	}
	return err
}
