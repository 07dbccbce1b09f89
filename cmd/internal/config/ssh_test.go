package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
)

func TestSSH(t *testing.T) {
	const aws = `cluster = "c"
[daemon]
listen = "head:9811"
[provider.p]
kind = "aws"
region = "us-east-1"
[pool.a]
provider = "p"
nodes = "a1"
partition = "cloud"
instance_types = ["t"]
image = "ami-0a"
subnets = ["subnet-0a"]
MORE
`
	const vultr = `cluster = "c"
[daemon]
listen = "head:9811"
[provider.p]
kind = "vultr"
region = "lhr"
[pool.a]
provider = "p"
nodes = "a1"
partition = "cloud"
instance_types = ["vhp-8c-16gb-amd"]
image = "os:Debian 12 x64 (bookworm)"
MORE
`
	key := ssh.Auth{KeyFile: "/etc/burst/id_ed25519"}
	for _, tt := range []struct {
		name, file, more string
		want             *SSH
		err              string
	}{
		{"user data", aws, "", nil, ""},
		{"user data, said", aws, `bootstrap = "user-data"`, nil, ""},
		{"over SSH", aws, "bootstrap = \"ssh\"\nlogin = \"admin\"", &SSH{User: "admin", Auth: key}, ""},
		{"over SSH as nobody", aws, `bootstrap = "ssh"`, nil, "login: is missing"},
		{"all keys", aws, "bootstrap = \"ssh\"\nlogin = \"ec2-user\"\nssh = { key = \"/k\", agent = \"/a\", port = 2222, host_key = \"console\" }",
			&SSH{User: "ec2-user", Auth: ssh.Auth{KeyFile: "/k", Agent: "/a"}, Port: 2222, Console: true}, ""},
		{"an agent alone", aws, "bootstrap = \"ssh\"\nlogin = \"root\"\nssh = { agent = \"/a\" }", &SSH{User: "root", Auth: ssh.Auth{Agent: "/a"}}, ""},
		{"Vultr", vultr, "", &SSH{User: "root", Auth: key}, ""},
		{"Vultr, and a key to send", vultr, "munge_key = \"ssh:/k\"\nvpc = \"e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55\"", &SSH{User: "root", Auth: key}, ""},
		{"the key over the Internet", vultr, `munge_key = "ssh:/k"`, nil, "whoever answers first at a public address"},
		{"the key over the Internet, said", vultr, "munge_key = \"ssh:/k\"\nssh = { host_key = \"pin-public\" }", &SSH{User: "root", Auth: key, Public: true}, ""},
		{"the key over the Internet, to who knows a word", vultr, "munge_key = \"ssh:/k\"\nssh = { host_key = \"user-data\" }", &SSH{User: "root", Auth: key, Word: true}, ""},
		{"AWS's user data", aws, "bootstrap = \"ssh\"\nlogin = \"a\"\nssh = { host_key = \"user-data\" }", nil, "write \"console\""},
		{"Vultr's console", vultr, `ssh = { host_key = "console" }`, nil, "Vultr's API shows no console"},
		{"another way", aws, `bootstrap = "carrier pigeon"`, nil, `write "user-data" or "ssh"`},
		{"ssh alone", aws, "ssh = { port = 22 }", nil, `ssh: is for pools with bootstrap = "ssh"`},
		{"login alone", aws, `login = "ec2-user"`, nil, `login: is for pools with bootstrap = "ssh"`},
		{"no port", aws, "bootstrap = \"ssh\"\nssh = { port = 70000 }", nil, "write a number from 1 to 65535"},
		{"no policy", aws, "bootstrap = \"ssh\"\nssh = { host_key = \"no\" }", nil, `write "pin" or "pin-public" or "console" or "user-data"`},
		{"no path", aws, "bootstrap = \"ssh\"\nssh = { key = \"id\" }", nil, "is not an absolute path"},
		{"an unknown key", aws, "bootstrap = \"ssh\"\nssh = { strict = false }", nil, "is not known"},
		{"a key that needs a role", aws, "bootstrap = \"ssh\"\nlogin = \"a\"\nmunge_key = \"ssm:/k\"", nil, "a file of this host that is sent over SSH"},
		{"a key that user data cannot have", aws, `munge_key = "ssh:/etc/munge/munge.key"`, nil, "is no place of a key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse("x", strings.Replace(tt.file, "MORE", tt.more, 1))
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %s", err, tt.err)
				}
			case err != nil:
				t.Error(err)
			default:
				if d := cmp.Diff(tt.want, c.Pools[0].SSH); d != "" {
					t.Error(d)
				}
				if (c.Pools[0].Power.UserData == "") != (tt.want != nil) || len(c.Pools[0].Boot.URLs) != 1 {
					t.Errorf("user data of %d bytes, %+v", len(c.Pools[0].Power.UserData), c.Pools[0].Boot)
				}
				if tt.want != nil && c.Providers[0].Vultr.Pools["a"].Word != tt.want.Word {
					t.Errorf("Vultr's pool is %+v", c.Providers[0].Vultr.Pools["a"])
				}
			}
		})
	}
}
