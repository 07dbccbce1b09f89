package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestReserve(t *testing.T) {
	made := false
	f := &fake{answer: func(command []string) (string, string, error) {
		switch line := strings.Join(command, " "); {
		case strings.Contains(line, "create") && made:
			return "", "Error creating the reservation: Duplicate reservation name\n", exitError(1)
		case strings.Contains(line, "create"):
			made = true
		case made:
			made = false
		default:
			return "", "delete_reservation " + command[2] + ": Requested reservation is invalid\n", exitError(1)
		}
		return "", "", nil
	}}
	c := newFake(f)
	r := Reservation{Name: "burst-i-1", Nodes: []string{"c1", "c2"}, Start: time.Unix(1800000000, 0)}
	for range 2 {
		if err := c.Reserve(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := c.Unreserve(t.Context(), r.Name); err != nil {
			t.Error(err)
		}
	}
	create := "scontrol create reservation reservationname=burst-i-1 starttime=uts1800000000 duration=1-00:00:00 user=root flags=maint,ignore_jobs nodes=c[1-2]"
	remove := "scontrol delete reservationname=burst-i-1"
	wantLines(t, f, create, create, remove, create, remove, remove)
	r.End = time.Unix(1800000060, 0)
	made = false
	if err := c.Reserve(t.Context(), r); err != nil {
		t.Error(err)
	}
	if got, want := f.lines()[6], "scontrol create reservation reservationname=burst-i-1 starttime=uts1800000000 endtime=uts1800000060 user=root flags=ignore_jobs,overlap nodes=c[1-2]"; got != want {
		t.Errorf("one with an end: %s, want %s", got, want)
	}
	all := Reservation{Name: "burst-dry-p", Start: r.Start, End: r.End}
	for n := range 10000 { // each argument is to be shorter than 128 KiB
		all.Nodes = append(all.Nodes, fmt.Sprintf("cloud-abc%04d", n))
	}
	made = false
	if err := c.Reserve(t.Context(), all); err != nil || !strings.HasSuffix(f.lines()[7], " nodes=cloud-abc[0000-9999]") {
		t.Errorf("of many nodes: %v, %.300s", err, f.lines()[7])
	}
	for _, bad := range []Reservation{{Name: "a b", Nodes: []string{"c1"}}, {Name: "a", Nodes: []string{"c1,c2"}}, {Nodes: []string{"c1"}}} {
		if c.Reserve(t.Context(), bad) == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if c.Unreserve(t.Context(), "a b") == nil || len(f.lines()) != 8 {
		t.Errorf("commands: %v", f.lines())
	}
}

// TestParseReservations: as slurmctld 22.05 writes them, with times in seconds.
func TestParseReservations(t *testing.T) {
	out := "ReservationName=theirs StartTime=1795404920 EndTime=1795405520 Duration=00:10:00 Nodes=c[4-5] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) " +
		"Flags=SPEC_NODES TRES=cpu=4 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)\n" +
		"ReservationName=licenses StartTime=1795404920 EndTime=1795405520 Nodes=(null) Licenses=matlab:1\n"
	all := parseReservations([]byte(out))
	if len(all) != 2 || all[0].Name != "theirs" || strings.Join(all[0].Nodes, ",") != "c4,c5" || all[0].Start.Unix() != 1795404920 ||
		all[0].End.Unix() != 1795405520 || len(all[1].Nodes) != 0 {
		t.Errorf("%+v", all)
	}
	if all := parseReservations([]byte("No reservations in the system\n")); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}
