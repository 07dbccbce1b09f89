package vultr_test

import (
	"testing"
	"time"

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
