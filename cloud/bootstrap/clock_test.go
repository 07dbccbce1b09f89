package bootstrap

import (
	"strings"
	"testing"
)

// TestClockOfTheImage: an image whose own service sets the clock needs no chrony, though it has
// not come to that when it is looked at first.
func TestClockOfTheImage(t *testing.T) {
	oneOfSeveral(t)
	const clock = `case $3 in NTP) cat $DESK/ntp;; NTPSynchronized) takes late && echo no || echo %;; esac`
	for _, tt := range []struct {
		name, ntp, synchronized string
		late                    int // looks that find it unsynchronized
		fails                   string
		looks                   int // least and most
	}{
		{"at once", "yes", "yes", 0, "", 1},
		{"later", "yes", "yes", 4, "", 5},
		{"with no service that sets it", "no", "yes", 4, "chrony is missing on this image", 1},
		{"never", "yes", "no", 0, "chrony is missing on this image", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.remove("chronyc")
			w.config.NTP = "image"
			w.write(w.state+"/ntp", tt.ntp)
			w.times("late", tt.late)
			w.stub("timedatectl", strings.ReplaceAll(clock, "%", tt.synchronized))
			r := w.run()
			if (r.code == 0) != (tt.fails == "") || !strings.Contains(r.console, tt.fails) {
				t.Errorf("exit code %d\n%s", r.code, r.console)
			}
			if n := r.count("timedatectl show -p NTPSynchronized"); tt.looks > 0 && n != tt.looks || n > 20 {
				t.Errorf("%d looks, want %d", n, tt.looks)
			}
		})
	}
}
