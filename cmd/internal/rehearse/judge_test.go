package rehearse

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

var asked = Options{For: 10 * time.Second, Within: time.Minute}

func TestFirst(t *testing.T) {
	running, done := slurm.Job{State: "RUNNING"}, slurm.Job{State: "COMPLETED"}
	began := Report{Step: "0", Began: time.Unix(1, 0)}
	ended := began
	ended.Ended, ended.Code = time.Unix(2, 0), 7
	made := began
	made.Made = &Made{ID: ckpt.ID{N: 1}}
	broken := began
	broken.Error = "disk full"
	for _, c := range []struct {
		name string
		view view
		made bool
		want string // of the error; empty: none
	}{
		{"waits for Slurm", view{job: slurm.Job{State: "PENDING"}}, false, ""},
		{"the script has not come to its step", view{job: running, ran: 30 * time.Second}, false, ""},
		{"it never does", view{job: running, ran: 2 * time.Minute}, false, "no step of the job ran under burst-srun within 1m0s"},
		{"the step runs for long", view{job: running, ran: 2 * time.Minute, reports: []Report{began}}, false, ""},
		{"made", view{job: running, reports: []Report{began, made}}, true, ""},
		{"made, and the job ended at once", view{job: done, reports: []Report{made}}, true, ""},
		{"not made", view{job: running, reports: []Report{broken}}, false, "no checkpoint of step 0: disk full"},
		{"too short", view{job: done, reports: []Report{began}}, false, "less than --for 10s"},
		{"failed", view{job: slurm.Job{State: "FAILED", ExitCode: 7}, reports: []Report{ended}}, false, "step 0 ended with exit code 7"},
		{"plain", view{job: slurm.Job{State: "FAILED", ExitCode: 2}}, false, "with exit code 2), and no step of it ran under burst-srun"},
		{"out of memory", view{job: slurm.Job{State: "OUT_OF_MEMORY", ExitSignal: 9}}, false, "OUT_OF_MEMORY, by signal 9"},
		{"cancelled", view{job: slurm.Job{State: "CANCELLED"}}, false, "ended as CANCELLED"},
		{"evicted", view{job: slurm.Job{State: "PENDING", Restarts: 1}}, false, "requeued in the middle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := first(c.view, asked)
			if r != nil != c.made || !says(err, c.want) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func says(err error, want string) bool {
	if want == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), want)
}

func TestAgain(t *testing.T) {
	from := ckpt.ID{Attempt: 0, N: 1}
	right := Report{Step: "0", From: from}
	left := right
	left.Ended, left.Code = time.Unix(2, 0), 3
	for _, c := range []struct {
		name     string
		view     view
		reported bool
		over     bool
		want     string
	}{
		{"waits", view{job: slurm.Job{State: "PENDING", Restarts: 1}}, false, false, ""},
		{"runs", view{job: slurm.Job{State: "RUNNING", Restarts: 1}, reports: []Report{{Step: "1"}, right}}, true, false, ""},
		{"ended well", view{job: slurm.Job{State: "COMPLETED", Restarts: 1}, reports: []Report{right}}, true, true, ""},
		{"ended, and its script hides it", view{job: slurm.Job{State: "COMPLETED", Restarts: 1}, reports: []Report{left}}, true, true, "step 0 ended with exit code 3"},
		{"ended badly", view{job: slurm.Job{State: "FAILED", ExitCode: 1, Restarts: 1}, reports: []Report{right}}, true, true, "the job ended with exit code 1"},
		{"its time is over", view{job: slurm.Job{State: "TIMEOUT", Restarts: 1}, reports: []Report{right}}, true, false, "time limit: say more"},
		{"from the beginning", view{job: slurm.Job{State: "RUNNING", Restarts: 1}, reports: []Report{{Step: "0"}}}, true, false, "from its beginning"},
		{"from another", view{job: slurm.Job{State: "RUNNING", Restarts: 1}, reports: []Report{{Step: "0", From: ckpt.ID{N: 2}}}}, true, false, "generation 2 of attempt 0, not from generation 1"},
		{"damaged", view{job: slurm.Job{State: "RUNNING", Restarts: 1}, reports: []Report{{Step: "0", Error: "no image"}}}, true, false, "does not restart: no image"},
		{"without the step", view{job: slurm.Job{State: "COMPLETED", Restarts: 1}}, false, true, "without a restart of step 0"},
		{"it never comes", view{job: slurm.Job{State: "RUNNING", Restarts: 1}, ran: time.Hour}, false, false, "was not started again within 1m0s"},
		{"evicted", view{job: slurm.Job{State: "PENDING", Restarts: 2}, reports: []Report{right}}, true, false, "requeued in the middle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.view.attempt = 1
			r, over, err := again(c.view, "0", from, asked)
			if r != nil != c.reported || over != c.over || !says(err, c.want) {
				t.Errorf("%+v, over: %v, %v", r, over, err)
			}
		})
	}
}
