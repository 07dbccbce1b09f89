package daemon

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestAgentsAreHeard over TCP: a notice is durable when it is answered, one
// for somebody else's node is refused, and a sick node is drained.
func TestAgentsAreHeard(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged, and waits for two judgements: slow end-to-end, run by make test")
	}
	if os.Getuid() != 0 {
		t.Skip("only root's credentials are taken")
	}
	s := newSite(t)
	socket := mungetest.Start(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.config.Endpoint.Listen = free.Addr().String()
	free.Close()
	s.boot("i-1", "p1")
	s.boot("i-2", "p2")
	s.move("i-2", "10.9.9.9")
	node := "NodeName=%s CPUAlloc=0 CPUTot=1 NodeAddr=127.0.0.1 NodeHostName=%s State=IDLE+CLOUD RealMemory=500 Partitions=p\n"
	s.write("nodes", strings.ReplaceAll(node, "%s", "p1")+strings.ReplaceAll(node, "%s", "p2"), 0o644)
	s.write("bin/scontrol", `#!/bin/sh
case "$*" in
'show config') echo 'AuthInfo = socket=`+socket+`';;
'-o show nodes') cat `+s.dir+`/nodes;;
*) echo "$*" >>`+s.dir+`/updates;;
esac
`, 0o755)
	s.write("bin/squeue", "#!/bin/sh\n", 0o755)
	s.write("updates", "", 0o644)
	r := s.start()
	r.until("nodes are answered", func() bool { return strings.Contains(r.log.String(), "booting nodes are answered") })
	r.until("p1 is up", func() bool { return r.phase("p1") == string(power.Up) })
	m := munge.New(munge.Options{Socket: socket})
	for _, tt := range []struct {
		name, path, body string
		status           int
	}{
		{"a rebalance", "/v1/node/notice", `{"instance":"i-1","kind":"rebalance"}`, http.StatusOK},
		{"a notice for somebody else's node", "/v1/node/notice", `{"instance":"i-2","kind":"spot-interruption"}`, http.StatusForbidden},
		{"of one that nobody launched", "/v1/node/notice", `{"instance":"i-9","kind":"spot-interruption"}`, http.StatusServiceUnavailable},
		{"a beat for somebody else", "/v1/node/beat", `{"instance":"i-2","spool_used":99}`, http.StatusForbidden},
		{"a beat", "/v1/node/beat", `{"instance":"i-1","spool_used":99}`, http.StatusOK},
		{"another", "/v1/node/beat", `{"instance":"i-1","spool_used":99}`, http.StatusOK},
	} {
		if status, body := r.post(m, tt.path, tt.body); status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.status)
		}
	}
	r.until("the sick node is drained", func() bool {
		text, err := os.ReadFile(s.dir + "/updates")
		return err == nil && strings.Contains(string(text), "update nodename=p1 state=power_down_asap reason=burst: sick: the disk of slurmd's spool is over 95 % full\n")
	})
	kinds := map[string]string{}
	for _, e := range r.events() {
		if e.Instance == "i-2" && (e.Kind == "notice" || e.Kind == "sick") {
			t.Errorf("i-2 has %+v", e)
		}
		kinds[e.Kind] += e.Instance
	}
	if kinds["sick"] != "i-1" || !strings.Contains(kinds["notice"], "i-1") {
		t.Errorf("events: %v", kinds)
	}
}

func (r *running) phase(node string) string {
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		r.Error(err)
	}
	for _, n := range nodes {
		if n.Node == node {
			return n.Journal
		}
	}
	return ""
}

func (r *running) events() []api.Event {
	r.Helper()
	events, err := r.Events(r.Context(), 0, 0)
	if err != nil {
		r.Error(err)
	}
	return events
}

// move gives an instance of the journal another address.
func (s *site) move(instance, addr string) {
	s.Helper()
	st, err := store.Open(s.Context(), s.config.Endpoint.DB())
	if err != nil {
		s.Fatal(err)
	}
	defer st.Close()
	i := power.Instance{Provider: "here", Assigned: "p2", Instance: cloud.Instance{ID: instance, Pool: "p", Addr: addr,
		Offering: cloud.Offering{Type: "small", Market: cloud.OnDemand}, State: cloud.Running, Launched: time.Now()}}
	if err := st.CommitPower(s.Context(), power.Change{Instances: []power.Instance{i}}); err != nil {
		s.Fatal(err)
	}
}
