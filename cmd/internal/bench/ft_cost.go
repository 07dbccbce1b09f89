package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
)

// ftBooked is how long burstd's ledger may take to take in the job's end.
const ftBooked = 75 * time.Second

// ftCost is what the job cost, by burstd's ledger as `burst cost` prints it,
// and what all instances did until it ended: that is with boots, with the time
// from a notice to the instance's end, and as the cloud bills it.
func ftCost(ctx context.Context, s site, id uint32, end time.Time) (job, all float64, err error) {
	table, err := price.Local()
	if err != nil {
		return 0, 0, err
	}
	machines, err := s.Control.List()
	if err != nil {
		return 0, 0, err
	}
	for _, m := range machines {
		usd, ok := table.Hourly(m.Offering)
		if !ok {
			return 0, 0, fmt.Errorf("no price of %v", m.Offering)
		}
		until := end
		if !m.Ended.IsZero() && m.Ended.Before(end) {
			until = m.Ended
		}
		all += price.PerSecond.Cost(usd, m.Launched, until)
	}
	job, err = ftBooking(ctx, s, id)
	return job, all, err
}

// ftPrices is a file with the prices of cloud/local's instances.
func ftPrices(env Env) (string, error) {
	path := filepath.Join(env.Dir, "prices.csv")
	return path, os.WriteFile(path, price.LocalCSV(), 0o644)
}

// ftBooking has the job's nodes powered down when it has ended, for the ledger
// is booked when instances end, and waits until it has been.
func ftBooking(ctx context.Context, s site, id uint32) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ftBooked, errors.New("burstd's ledger does not tell what the job cost"))
	defer cancel()
	nodes := ""
	for nodes == "" {
		j, err := s.Job(ctx, id)
		if err != nil {
			return 0, err
		}
		if j.State == "COMPLETED" {
			nodes = j.Nodes
			break
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return 0, fmt.Errorf("the job's end: %w", err)
		}
	}
	if err := pause(ctx, 3*time.Second); err != nil { // burstd has read Slurm since
		return 0, err
	}
	_, before, err := ftUsage(ctx, s, id)
	if err != nil {
		return 0, err
	}
	if out, err := s.Cluster.Command(ctx, "scontrol", "update", "nodename="+nodes, "state=power_down").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("powering %s down: %w: %s", nodes, err, out)
	}
	for err == nil {
		var usd, seconds float64
		if usd, seconds, err = ftUsage(ctx, s, id); err == nil && seconds > before && usd > 0 {
			return usd, nil
		}
		if perr := pause(ctx, 500*time.Millisecond); err == nil {
			err = perr
		}
	}
	return 0, err
}

// ftBoot is how long a node of the job's took from Slurm's order to its
// registration: the median, in seconds.
func ftBoot(ctx context.Context, s site, id uint32) (float64, error) {
	boots, err := s.API.Boots(ctx, "", id, 100)
	if err != nil {
		return 0, err
	}
	var took []float64
	for _, b := range boots {
		if b.Outcome == "up" {
			took = append(took, b.Seconds-b.Stages["started"]) // which is Slurm's and the gate's
		}
	}
	if len(took) == 0 {
		return 0, fmt.Errorf("burstd tells of no boots for job %d", id)
	}
	return Median(took), nil
}

// ftUsage is what the job cost by now, and the seconds of all instances.
func ftUsage(ctx context.Context, s site, id uint32) (usd, seconds float64, err error) {
	usage, err := s.API.Usage(ctx, api.UsageQuery{Since: time.Now().Add(-24 * time.Hour), By: "job"})
	for _, u := range usage {
		seconds += u.Seconds
		if u.Key == strconv.FormatUint(uint64(id), 10) && u.USD != nil {
			usd = *u.USD
		}
	}
	return usd, seconds, err
}
