package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/power"
)

func TestMungeSocket(t *testing.T) {
	for info, want := range map[string]string{
		"":                                "",
		"cred_expire=60":                  "",
		"socket=/run/m/s":                 "/run/m/s",
		"cred_expire=60, socket=/run/m/s": "/run/m/s",
	} {
		if got := mungeSocket(map[string]string{"AuthInfo": info}); got != want {
			t.Errorf("%q: %q, want %q", info, got, want)
		}
	}
}

// TestABootingNodeIsAnswered over TCP, by the munged that Slurm names, once
// Slurm and the address are there.
func TestABootingNodeIsAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged: slow end-to-end, run by make test")
	}
	s := newSite(t)
	socket := mungetest.Start(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.config.Endpoint.Listen = taken.Addr().String()
	s.boot("i-1", "p1")
	r := s.start()
	r.until("it is said that Slurm is away", func() bool { return strings.Contains(r.log.String(), "booting nodes are not answered yet") })
	s.write("bin/scontrol", "#!/bin/sh\n[ \"$*\" = 'show config' ] && echo 'AuthInfo = cred_expire=60,socket="+socket+"' && echo 'SLURM_VERSION = 22.05.8'\n", 0o755)
	r.until("it is said that the address is in use", func() bool { return strings.Contains(r.log.String(), "address already in use") })
	taken.Close()
	r.until("booting nodes are answered", func() bool { return strings.Contains(r.log.String(), "booting nodes are answered") })

	m := munge.New(munge.Options{Socket: socket})
	status, body := r.post(m, "/v1/node/whoami", `{"instance":"i-1"}`)
	if os.Getuid() != 0 {
		if status != http.StatusForbidden || !strings.Contains(body, "not root's") {
			t.Errorf("an ordinary user: %d %s", status, body)
		}
		return
	}
	st, err := r.Status(t.Context())
	if want := fmt.Sprintf(`{"instance":"i-1","node":"p1","cluster":%q,"slurm":"22.05.8"}`, st.Cluster); err != nil || status != 200 || body != want {
		t.Errorf("whoami: %d %s, want %s (%v)", status, body, want, err)
	}
	if status, body = r.post(m, "/v1/node/report", `{"instance":"i-1","stage":"ready","text":""}`); status != 200 || body != "{}" {
		t.Errorf("report: %d %s", status, body)
	}
	if status, body = r.post(m, "/v1/node/whoami", `{"instance":"i-2"}`); status != http.StatusConflict {
		t.Errorf("one that is not known: %d %s", status, body)
	}
	r.until("the requests are counted", func() bool {
		return strings.Contains(r.scrape(), `burst_node_requests_total{outcome="ok"} 2`)
	})
}

// boot leaves a journal in which the instance is the node, and has its address.
func (s *site) boot(instance, node string) {
	s.Helper()
	st, err := store.Open(s.Context(), s.config.Endpoint.DB())
	if err != nil {
		s.Fatal(err)
	}
	defer st.Close()
	now := time.Now()
	i := power.Instance{Provider: "here", Assigned: node, Instance: cloud.Instance{ID: instance, Pool: "p", Addr: "127.0.0.1",
		Offering: cloud.Offering{Type: "small", Market: cloud.OnDemand}, State: cloud.Running, Launched: now}}
	n := power.Node{Name: node, Pool: "p", Phase: power.Booting, Since: now, Made: now, Instance: instance, AddrSet: true}
	if err := st.CommitPower(s.Context(), power.Change{Instances: []power.Instance{i}, Nodes: []power.Node{n}}); err != nil {
		s.Fatal(err)
	}
}

// post sends a node's request.
func (r *running) post(m *munge.Munge, path, body string) (status int, answer string) {
	r.Helper()
	sum := sha256.Sum256([]byte(body))
	credential, err := m.Encode(r.Context(), []byte("POST "+path+" "+hex.EncodeToString(sum[:])))
	if err != nil {
		r.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.Context(), "POST", "http://"+r.config.Endpoint.Listen+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "MUNGE "+credential)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Error(err)
	}
	return resp.StatusCode, string(text)
}
