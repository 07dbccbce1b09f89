package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cmd/internal/api"
)

const bigConfig = `cluster = "bench"
[slurm]
conf = %[1]q
bin = %[2]q
user = %[3]q
[daemon]
socket = %[4]q
spool = %[5]q
state = %[6]q
metrics = %[7]q
listen = %[8]q
[provider.aws]
kind = "aws"
region = "us-east-1"
endpoint = %[9]q
price_table = %[10]q
[pool.p]
provider = "aws"
nodes = "c[1-%[11]d]"
partition = "cloud"
instance_types = ["c6i.large"]
zones = ["us-east-1a"]
market = "on-demand"
image = %[12]q
subnets = [%[13]q]
security_groups = [%[14]q]
cpus = 2
real_memory = 1000
`

// start starts burstd, and returns when it answers.
func (w *bigWorld) start(ctx context.Context, env Env) error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	path := func(name string) string { return filepath.Join(w.dir, name) }
	var listen string
	for _, addr := range []*string{&w.metrics, &listen} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*addr = ln.Addr().String()
		if err := ln.Close(); err != nil {
			return err
		}
	}
	text := fmt.Sprintf(bigConfig, path("slurm.conf"), path("bin"), me.Username, path("b.sock"), path("spool"), path("state"), w.metrics, listen,
		w.fake.URL(), path("prices.csv"), bigNodes, ec2test.ImageX86, ec2test.SubnetIn("a"), ec2test.SecurityGroup)
	for name, text := range map[string]string{"burst.toml": text, "slurm.conf": "ClusterName=bench\n",
		"prices.csv": "type,zone,market,usd_per_hour,date\nc6i.large,,on-demand,0.085,2026-01-01\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := writeShims(path("bin"), filepath.Join(env.Programs, "burst"), path("slurm.sock")); err != nil {
		return err
	}
	log, err := os.Create(path("burstd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	w.cmd = exec.Command(filepath.Join(env.Programs, "burstd"), "--config", path("burst.toml"))
	w.cmd.Env = append(os.Environ(), "AWS_EC2_METADATA_DISABLED=true")
	w.cmd.Stdout, w.cmd.Stderr = log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.api = api.NewClient(path("b.sock"))
	return w.await(ctx)
}

func (w *bigWorld) await(ctx context.Context) error {
	w.began = time.Now()
	if err := w.cmd.Start(); err != nil {
		w.cmd = nil
		return err
	}
	go func() { w.ended <- w.cmd.Wait() }()
	for {
		if _, err := w.api.Status(ctx); err == nil {
			return nil
		}
		select {
		case err := <-w.ended:
			w.cmd = nil
			return fmt.Errorf("burstd has ended: %w: %s", err, w.logged())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// logged is the beginning of burstd's log.
func (w *bigWorld) logged() []byte {
	text, err := os.ReadFile(filepath.Join(w.dir, "burstd.log"))
	if err != nil {
		return []byte(err.Error())
	}
	return text[:min(len(text), 3000)]
}

func (w *bigWorld) pid() int { return w.cmd.Process.Pid }
