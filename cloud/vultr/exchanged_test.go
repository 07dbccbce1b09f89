package vultr_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// TestKeyIsExchangedInALaunch: another account's key is there after the second wave, and nothing more
// is to be had. What was made is taken back where it was made.
func TestKeyIsExchangedInALaunch(t *testing.T) {
	t.Parallel()
	home, abroad := fakeCloud(t, vultrtest.Options{}), fakeCloud(t, vultrtest.Options{})
	const other = "ANOTHERKEY"
	file, made := keyFile(t), new(atomic.Int32)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+other {
			r.Header.Set("Authorization", "Bearer "+vultrtest.Key)
			abroad.ServeHTTP(w, r)
			return
		}
		if home.ServeHTTP(w, r); r.Method == http.MethodPost && made.Add(1) == 3 {
			if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(front.Close)
	home.SetCapacity(vultrtest.Plan, 3)
	abroad.SetCapacity(vultrtest.Plan, 0)
	p := over(t, home, func(v *vultr.Config) { v.Endpoint, v.KeyFile = front.URL, file })
	r := ask("t-1", 9)
	r.AllOrNothing = true
	got, err := p.Launch(t.Context(), r)
	if back := cloud.TakenBack(err); len(got) != 0 || cloud.KindOf(err) != cloud.Capacity || len(back) != 3 {
		t.Errorf("got %v, %v, taken back are %v", ids(got), err, ids(back))
	}
	if n := len(home.Machines()); n != 0 || len(abroad.Calls()) != 0 {
		t.Errorf("%d machines live, the other account was asked %v", n, abroad.Calls())
	}
}

// TestNotTakenBackIsReturned: of what Vultr does not find when it is to be destroyed, nobody has said that it has ended.
func TestNotTakenBackIsReturned(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	c.SetCapacity(vultrtest.Plan, 3)
	c.Fail("DELETE instances", vultrtest.Fault{Status: http.StatusNotFound, Message: "Invalid instance."})
	p, r := over(t, c), ask("t-1", 9)
	r.AllOrNothing = true
	got, err := p.Launch(t.Context(), r)
	if back := cloud.TakenBack(err); len(c.Machines()) != 1 || len(got) != 1 || got[0].ID != c.Machines()[0].ID || len(back) != 2 {
		t.Errorf("got %v, %v, taken back are %v, there are %v", ids(got), err, ids(back), c.Machines())
	}
}
