package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// accountTimeout bounds the question whose the credentials are.
const accountTimeout = 20 * time.Second

// sameAccount says why an instance that these credentials launch would be nobody's: burstd, with others,
// would not find it if this command were killed, nor the image. Where neither it nor this command can tell the account,
// that is said on w, and no error.
func sameAccount(ctx context.Context, w io.Writer, cfg *config.Config, name string, provider cloud.Provider) error {
	a, ok := provider.(cloud.Accountant)
	if !ok {
		return nil
	}
	const hint = "give this command burstd's credentials; docs/images.md says how"
	asking, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	here, herr := a.Account(asking)
	client := api.NewClient(cfg.Endpoint.Socket)
	defer client.Close()
	hearing, cancel := context.WithTimeout(ctx, burstdTimeout)
	defer cancel()
	status, err := client.Status(hearing)
	if err != nil {
		return fmt.Errorf("asking burstd whose credentials it has: %w", explain(err))
	}
	there := status.Accounts[name]
	switch {
	case herr != nil && there == "":
		fmt.Fprintf(w, "whether the credentials of provider %s are those of burstd's account is not known: %s\n", name, printable(herr.Error()))
		return nil
	case herr != nil:
		return cli.WithHint(fmt.Errorf("nothing is launched: whose the credentials of provider %s are is not known: %w", name, herr), hint)
	case there == "" && !status.SlurmOK:
		return cli.WithHint(fmt.Errorf("nothing is launched: the credentials of provider %s are of account %s, and burstd does not say of which its are: it waits for Slurm", name, printable(here)),
			"see that slurmctld answers: burst status")
	case there == "":
		return cli.WithHint(fmt.Errorf("nothing is launched: the credentials of provider %s are of account %s, and burstd does not say of which its are", name, printable(here)),
			"try again in a minute; restart burstd if it is older than this command")
	case there != api.AccountMark(here):
		return cli.WithHint(fmt.Errorf("nothing is launched: the credentials of provider %s are of account %s here and of another in the burstd that runs, which could neither end the instance nor use the image", name, printable(here)), hint)
	}
	return nil
}
