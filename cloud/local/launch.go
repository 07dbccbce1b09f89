package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/slurmd"
)

// Launch implements cloud.Provider. The order of its writes is what makes a
// replay safe after a crash between any two: the ids under the token, then
// the folders, then the processes. A replay does what is missing.
func (p *Provider) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	if err := check(r); err != nil {
		return nil, wrap("launch", cloud.Invalid, err)
	}
	ids, err := p.prepare(ctx, r)
	if err != nil {
		var e *cloud.Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, wrap("launch", cloud.Transient, err)
	}
	var live []cloud.Instance
	for _, id := range ids {
		rec, ok, err := p.store.record(id)
		var i cloud.Instance
		if err == nil && ok {
			i, err = p.store.look(rec)
		}
		if err != nil {
			return nil, wrap("launch", cloud.Transient, err)
		}
		if i.State.Live() {
			live = append(live, i)
		}
	}
	if len(live) < r.Count {
		return live, wrap("launch", cloud.Capacity, fmt.Errorf("of %d instances of %s, %d were granted and %d live", r.Count, r.Offering, len(ids), len(live)))
	}
	return live, nil
}

func check(r cloud.LaunchRequest) error {
	switch {
	case !mainCalled:
		return errors.New("this program does not call local.Main, so it cannot become a machine")
	case r.Token == "":
		return errors.New("no token")
	case r.Cluster == "":
		return errors.New("no cluster")
	case r.Count < 1 || r.Count > maxLaunch:
		return fmt.Errorf("count is %d, not 1 to %d", r.Count, maxLaunch)
	}
	return nil
}

// prepare makes sure that the token has its ids, each with folder and process.
func (p *Provider) prepare(ctx context.Context, r cloud.LaunchRequest) ([]string, error) {
	unlock, err := p.store.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	l, err := p.grant(r)
	if err != nil {
		return nil, err
	}
	if p.cfg.Network == NetNS {
		if err := p.cfg.makeBridge(); err != nil {
			return nil, err
		}
	}
	if err := p.makeFolders(l); err != nil {
		return nil, err
	}
	for _, id := range l.IDs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.store.begin(id); err != nil {
			return nil, err
		}
	}
	return l.IDs, nil
}

// grant reads or writes the launch of the token.
func (p *Provider) grant(r cloud.LaunchRequest) (launch, error) {
	var l launch
	path := p.store.launchPath(r.Token)
	known, err := readJSON(path, &l)
	if err != nil {
		return l, err
	}
	if len(r.Tags) == 0 {
		r.Tags = nil // as it is read back
	}
	if known {
		if !reflect.DeepEqual(l.Request, r) {
			return l, wrap("launch", cloud.Invalid, fmt.Errorf("token %s was used for another request", r.Token))
		}
		return l, nil
	}
	n, err := p.store.take(r.Offering, r.Count, r.AllOrNothing)
	if err != nil {
		return l, err
	}
	if n == 0 {
		return l, wrap("launch", cloud.Capacity, fmt.Errorf("no room for %d instances of %s", r.Count, r.Offering))
	}
	l.Request = r
	for range n {
		id := make([]byte, 5)
		rand.Read(id)
		l.IDs = append(l.IDs, "i-"+hex.EncodeToString(id))
	}
	return l, writeJSON(path, l)
}

// makeFolders makes the folders that the launch still lacks, each complete at once.
func (p *Provider) makeFolders(l launch) error {
	var missing []string
	for _, id := range l.IDs {
		there, err := p.store.has(id, instanceFile)
		if err != nil {
			return err
		}
		if !there {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	boot, err := p.store.boot()
	if err != nil {
		return err
	}
	networks, err := p.networks(missing)
	if err != nil {
		return err
	}
	for n, id := range missing {
		r := record{
			ID: id, Token: l.Request.Token, Cluster: l.Request.Cluster, Pool: l.Request.Pool,
			Offering: l.Request.Offering, Launched: time.Now(), Addr: "127.0.0.1", Hostname: p.host,
			Conf: p.cfg.Conf, Slurmd: p.cfg.Slurmd, Boot: boot, Network: networks[n],
		}
		if r.Network != nil {
			r.Addr, r.Hostname = r.Network.Addr.Addr().String(), "" // the node's own name
		}
		fresh := p.store.path(newPrefix+id, "")
		if err := os.RemoveAll(fresh); err != nil {
			return err
		}
		if err := os.Mkdir(fresh, 0o755); err != nil {
			return err
		}
		if err := writeJSON(filepath.Join(fresh, instanceFile), r); err != nil {
			return err
		}
		if err := os.Rename(fresh, p.store.path(id, "")); err != nil {
			return err
		}
	}
	return syncDir(p.store.path("", ""))
}

// begin starts the machine of an instance that has had none and may have one.
// If one is just beginning, the instance's own lock lets only one go on.
func (s store) begin(id string) error {
	for _, file := range []string{endedFile, terminateFile, machineFile} {
		if there, err := s.has(id, file); err != nil || there {
			return err
		}
	}
	r, ok, err := s.record(id)
	if err != nil || !ok {
		return err
	}
	log, err := os.OpenFile(s.path(id, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"burst-local-instance " + id}
	cmd.Dir = s.path(id, "")
	cmd.Env = []string{folderEnv + "=" + cmd.Dir, instanceEnv + "=" + id, tokenEnv + "=" + r.Token}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := slurmd.Start(cmd); err != nil {
		return fmt.Errorf("starting instance %s: %w", id, err)
	}
	go func() { _ = cmd.Wait() }() // reaps it; how it ended, its folder says
	return nil
}
