package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// registry: an image that skopeo has put into a registry as docker:// has it, and a SIF
// file there as oras:// has it, on two nodes; by its tag, and after that from the nodes'
// disks though the registry is gone.
func (c *contained) registry(t *testing.T) {
	for _, name := range []string{"docker-registry", "skopeo"} {
		if tool(c.path, name) == "" {
			t.Skipf("NOT TESTED: no %s is here, and so no image comes from a registry: make deps-containers, as root", name)
		}
	}
	address, stop := c.serve(t)
	s := &contained{heats: &heats{site: &site{c.Site, t, c.bin}}, path: c.path, dir: c.dir}
	// skopeo takes layers, and not a sandbox: an OCI layout of one layer.
	layout := filepath.Join(c.dir, "layout")
	ociLayout(t, c.folder, layout)
	s.command("skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "oci:"+layout+":heat", "docker://"+address+"/heat:1")
	s.command("apptainer", "push", c.sif, "oras://"+address+"/heat-sif:1")
	want := c.undisturbed(t, 64, 200)
	for _, image := range []string{"docker://" + address + "/heat:1", "oras://" + address + "/heat-sif:1"} {
		out := c.batch(t, fmt.Sprintf("$burst --container %s /opt/heat %s", image, boxed), "-N2", "--ntasks-per-node=1", "-pcloud")
		if sums := checksum.FindAllString(out, -1); len(sums) != 1 || sums[0] != want || !strings.Contains(out, " 2 ranks as") {
			t.Errorf("%s: %v, want %s:\n%s", image, sums, want, out)
		}
	}
	absent := c.batch(t, "$burst --container docker://"+address+"/heat:none /opt/heat", "-N1", "-n1", "-pcloud")
	if !strings.Contains(absent, "has no such image") || !strings.Contains(absent, "the script ends with 1") {
		t.Errorf("a tag that is not there:\n%s", absent)
	}
	stop()
	digests := glob(c.Dir, "cache-*/docker-*.sif")
	if len(digests) != 2 {
		t.Fatalf("copies of the image by its digest: %v", digests)
	}
	digest := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(digests[0]), "docker-"), ".sif")
	out := c.batch(t, fmt.Sprintf("$burst --container docker://%s/heat@sha256:%s /opt/heat %s", address, digest, boxed), "-N1", "-n1", "-pcloud", "-w"+nodeOf(digests[0]))
	if sums := checksum.FindAllString(out, -1); len(sums) != 1 || sums[0] != want {
		t.Errorf("by its digest, without the registry: %v, want %s:\n%s", sums, want, out)
	}
}

// nodeOf is the node whose cache a file is in.
func nodeOf(file string) string {
	return strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "cache-")
}

// serve runs a registry on the loopback until it is stopped.
func (c *contained) serve(t *testing.T) (address string, stop func()) {
	t.Helper()
	address = freeAddress(t)
	config := filepath.Join(c.dir, "registry.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", filepath.Join(c.dir, "registry"), address)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool(c.path, "docker-registry"), "serve", config)
	log, err := os.Create(filepath.Join(c.dir, "registry.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			log.Close()
		}
	}
	t.Cleanup(stop)
	s := &site{c.Site, t, c.bin}
	s.wait(20*time.Second, "the registry answers", func() bool {
		resp, err := http.Get("http://" + address + "/v2/")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	if host, _, err := net.SplitHostPort(address); err != nil || !net.ParseIP(host).IsLoopback() {
		t.Fatalf("the registry listens on %s", address)
	}
	return address, stop
}
