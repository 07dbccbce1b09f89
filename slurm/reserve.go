package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// errNoReservation says that Slurm does not know the reservation.
var errNoReservation = errors.New("no such reservation")

// errReserved says that there is a reservation of that name.
var errReserved = errors.New("there is one of that name")

// Reservation keeps jobs off its nodes from Start to End, or until it is
// removed: one of which nobody knows any more blocks its nodes no longer. Jobs that
// run there already are let be; no job begins that may last beyond Start.
type Reservation struct {
	Name  string
	Nodes []string
	Start time.Time
	End   time.Time // zero: it is of maintenance, for a day
}

// Reserve makes the reservation; one of that name is replaced, so that it is
// safe to repeat. ErrNoNode says that Slurm does not know a node of it.
func (c *Client) Reserve(ctx context.Context, r Reservation) error {
	args := []string{"create", "reservation"}
	for _, word := range append([]string{r.Name}, r.Nodes...) {
		if err := checkWord(word); err != nil {
			return fmt.Errorf("making a reservation: %w", err)
		}
	}
	end, flags := "duration=1-00:00:00", "flags=maint,ignore_jobs"
	if !r.End.IsZero() {
		end, flags = "endtime="+startTime(r.End), "flags=ignore_jobs,overlap"
	}
	args = append(args, "reservationname="+r.Name, "starttime=uts"+strconv.FormatInt(r.Start.Unix(), 10), end,
		"user=root", flags, "nodes="+hostlist.Fold(r.Nodes))
	_, err := c.run(ctx, "scontrol", args...)
	if errors.Is(err, errReserved) {
		if err := c.Unreserve(ctx, r.Name); err != nil {
			return err
		}
		_, err = c.run(ctx, "scontrol", args...)
	}
	if err != nil {
		return fmt.Errorf("making reservation %s: %w", r.Name, err)
	}
	return nil
}

// Unreserve removes a reservation; one that is not there is no error.
func (c *Client) Unreserve(ctx context.Context, name string) error {
	if err := checkWord(name); err != nil {
		return fmt.Errorf("removing a reservation: %w", err)
	}
	_, err := c.run(ctx, "scontrol", "delete", "reservationname="+name)
	if err != nil && !errors.Is(err, errNoReservation) {
		return fmt.Errorf("removing reservation %s: %w", name, err)
	}
	return nil
}

// Reservations reads those that are there, also of times to come. Nodes are expanded; one whose
// nodes cannot be read has none.
func (c *Client) Reservations(ctx context.Context) ([]Reservation, error) {
	out, err := c.run(ctx, "scontrol", "-o", "show", "reservations")
	if err != nil {
		return nil, fmt.Errorf("reading reservations: %w", err)
	}
	return parseReservations(out), nil
}

func parseReservations(out []byte) []Reservation {
	var all []Reservation
	for _, r := range fields(out, "ReservationName=") {
		nodes, err := hostlist.Expand(r["Nodes"])
		if err != nil {
			nodes = nil
		}
		start, end := seconds(r["StartTime"]), seconds(r["EndTime"])
		all = append(all, Reservation{r["ReservationName"], nodes, time.Unix(int64(start/time.Second), 0), time.Unix(int64(end/time.Second), 0)})
	}
	return all
}
