package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
)

// runBills prints what the ledger has of each instance beside its provider's word. It fails if they differ.
func runBills(ctx context.Context, w io.Writer, client *api.Client, o costOptions) error {
	bills, err := client.Bills(ctx, o.since)
	if err != nil {
		return explain(err)
	}
	differ, guessed := 0, 0
	rows := [][]string{{"INSTANCE", "PROVIDER", "POOL", "OFFERING", "LAUNCHED", "ENDED", "BILLED BY", "CHARGED", "BOOKED", "USD", "NOTE"}}
	for _, b := range bills {
		note := ""
		if b.Guessed {
			guessed++
			note = "end not told"
		}
		if b.Differs {
			differ++
			note = "DIFFERS"
		}
		rows = append(rows, []string{b.Instance, b.Provider, b.Pool, b.Offering, b.Launched.Local().Format(time.DateTime), b.Ended.Local().Format(time.DateTime), b.Billing,
			fmt.Sprintf("%.0f", b.ChargedSeconds), fmt.Sprintf("%.0f", b.BookedChargeSeconds), inUSD(b.USD), note})
	}
	if o.json {
		err = writeJSON(w, append([]api.Bill{}, bills...))
	} else if err = writeTable(w, rows); err == nil {
		_, err = fmt.Fprintf(w, "\n%d instances, %d differ; of %d the provider never told the end: they have that which burstd has seen.\n", len(bills), differ, guessed)
	}
	if err == nil && differ > 0 {
		err = cli.WithHint(fmt.Errorf("the ledger has not what the provider has told, of %d of %d instances", differ, len(bills)), "see the lines with DIFFERS, and burst events of their nodes")
	}
	return err
}
