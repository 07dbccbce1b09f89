package vultr_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// victim is what the process that is killed is told.
type victim struct {
	Config  vultr.Config
	Request cloud.LaunchRequest
}

const victimVar = "BURST_VULTR_VICTIM"

func TestMain(m *testing.M) {
	if text := os.Getenv(victimVar); text != "" {
		os.Exit(beVictim(text))
	}
	flag.Parse()
	if testing.Short() {
		vultr.Hasten()
	}
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue { // nobody has said otherwise
		if err := flag.Set("test.parallel", "16"); err != nil { // the tests wait more than they work
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// beVictim launches, as burstd would after each start, and prints how many came.
func beVictim(text string) int {
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	p, err := vultr.New(v.Config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	got, err := p.Launch(context.Background(), v.Request)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(len(got))
	return 0
}

// A process that launches is killed (kill -9) at random moments, again and
// again, and another goes on with the same request: there are never two
// instances with one label, none without, and in the end as many as were asked for.
func TestKilled(t *testing.T) {
	t.Parallel()
	const count, lag = 40, 300 * time.Millisecond
	c := fakeCloud(t, vultrtest.Options{Latency: 20 * time.Millisecond, Lag: 50 * time.Millisecond})
	v := victim{
		Config: vultr.Config{Name: "lon", Region: vultrtest.Region, KeyFile: keyFile(t), Dir: t.TempDir(), Endpoint: c.URL(), Lag: lag, Pools: map[string]vultr.Pool{"pool": {}}},
	}
	prepared := []cloud.LaunchRequest{ask("t-1", count)}
	if err := over(t, c).Prepare(t.Context(), prepared)[0]; err != nil {
		t.Fatal(err)
	}
	v.Request = prepared[0]
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	kills, most := 0, 15
	if testing.Short() {
		most = 5 // the rest in make test
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if time.Now().After(deadline) {
			t.Fatalf("no process has come to its end after %d kills", kills)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if kills < most { // the rest may live
			timer := time.AfterFunc(lag/2+time.Duration(rand.Int64N(int64(lag))), cancel) // CommandContext kills with -9
			defer timer.Stop()
		}
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), victimVar+"="+string(text))
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil {
			if string(out) != fmt.Sprintln(count) {
				t.Errorf("the last process says %q", out)
			}
			break
		}
		kills++
	}
	all := labels(c)
	if len(all) != count || len(slices.Compact(slices.Clone(all))) != count {
		t.Errorf("after %d kills there are %d machines: %v", kills, len(all), all)
	}
	if kills == 0 {
		t.Error("no process was killed: the test shows nothing")
	}
	t.Logf("%d kills, %d requests to make an instance", kills, c.Count(posts))
}
