package vultr_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// TestImageStates: a snapshot that Vultr still shows though it is deleted is no image, not even one
// that has failed, which would be deleted without end.
func TestImageStates(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	ids := map[string]string{}
	for status, token := range map[string]string{"complete": "A", "pending": "B", "deleted": "C", "odd": "D"} {
		ids["snapshot:"+c.AddSnapshot("burst:cluster=c-1 burst:image=os:1 burst:pool=p burst:token=image-20260101T000000Z-"+token, status, time.Now())] = status
	}
	all, err := over(t, c).Images(t.Context(), "c-1")
	if err != nil || len(all) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	want := map[string]cloud.ImageState{"complete": cloud.ImageAvailable, "pending": cloud.ImagePending, "odd": cloud.ImageFailed}
	for _, i := range all {
		if status := ids[i.ID]; i.State != want[status] {
			t.Errorf("%s is %s", status, i.State)
		}
	}
}

// TestLongDescription: what a snapshot is found again by is kept where Vultr cuts descriptions.
func TestLongDescription(t *testing.T) {
	t.Parallel()
	const system = "os:Betriebssystem für Größeres, "
	name := strings.Repeat("n", 63) // the longest of a cluster and of a pool
	for _, source := range []string{"os:2136", system + strings.Repeat("ü", 60), strings.Repeat("x", 500)} {
		c := fakeCloud(t, vultrtest.Options{})
		p := over(t, c)
		got, err := p.Launch(t.Context(), ask("t-1", 1))
		if err != nil {
			t.Fatal(err)
		}
		r := cloud.ImageRequest{Token: cloud.BuilderToken(time.Now()), Cluster: name, Pool: name, Source: source, Instance: got[0].ID}
		c.Off(got[0].ID)
		made, err := p.MakeImage(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		all, err := over(t, c).Images(t.Context(), name)
		if err != nil || len(all) != 1 || all[0].ID != made.ID || all[0].Token != r.Token || all[0].Pool != name || all[0].Source == "" || !strings.HasPrefix(source, all[0].Source) || !utf8.ValidString(all[0].Source) {
			t.Errorf("%q is shown as %+v, %v", source, all, err)
		}
		if source == "os:2136" && all[0].Source != source {
			t.Errorf("%q is cut to %q", source, all[0].Source)
		}
	}
}
