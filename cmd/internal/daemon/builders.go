package daemon

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/power"
)

// ahead is how far in the future an end may be: the cloud's clock is not ours.
const ahead = 5 * time.Minute

// BookBuilder writes an instance into the journal as one that was there and is gone, by which the ledger
// has it. What burstd itself ends, as nobody held it any more, it books without being told.
func (d *Daemon) BookBuilder(ctx context.Context, b api.Builder) error {
	now := time.Now()
	_, ours := cloud.BuilderUntil(b.Token)
	_, watched := d.cfg.Provider(b.Provider)
	why := ""
	switch {
	case !ours:
		why = fmt.Sprintf("%.100q is no token of an instance of which an image is made", b.Token)
	case b.Instance == "" || b.Pool == "" || b.Type == "":
		why = "the instance has no id, pool or type"
	case !watched:
		why = fmt.Sprintf("there is no provider %.100q", b.Provider)
	case b.Launched.IsZero() || b.Ended.Before(b.Launched) || b.Ended.After(now.Add(ahead)):
		why = fmt.Sprintf("an instance cannot have lived from %s to %s", b.Launched.Format(time.RFC3339), b.Ended.Format(time.RFC3339))
	}
	if why != "" {
		return &api.Error{Status: http.StatusBadRequest, Message: why}
	}
	d.booking.Lock() // a request that is repeated finds what the first has written
	defer d.booking.Unlock()
	if known, err := d.store.Known(ctx, []string{b.Instance}); err != nil || known[b.Instance] {
		return err
	}
	i := power.Instance{Provider: b.Provider, Doomed: "an image was to be made of it", Gone: now, Guessed: b.Guessed, Instance: cloud.Instance{ID: b.Instance, Token: b.Token, Cluster: d.cluster,
		Pool: b.Pool, Offering: cloud.Offering{Type: b.Type, Zone: b.Zone, Market: cloud.Market(b.Market)}, State: cloud.Terminated, Launched: b.Launched, Ended: b.Ended}}
	return d.journal.CommitPower(ctx, power.Change{Instances: []power.Instance{i}, Events: []power.Event{{Time: now, Kind: "gone", Instance: i.ID, Pool: i.Pool,
		Text: fmt.Sprintf("%s ended after %s: %s", i.Offering, i.Ended.Sub(i.Launched).Round(time.Second), i.Doomed)}}})
}
