package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// listedImage is an image as burst image list --json prints it.
type listedImage struct {
	cloud.Image
	Provider string   `json:"provider"`
	UsedBy   []string `json:"used_by"` // pools whose nodes are made of it, by burst.toml
	// Unfinished: the command that made it was killed before it knew that it is whole.
	Unfinished bool `json:"unfinished,omitempty"`

	imager cloud.Imager
}

func imageListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images that Burst has made for this cluster",
		Long: "List the images that Burst has made for this cluster, on all its providers, also those\n" +
			"that are being made or have failed. What is left of an image whose removal was cut off\n" +
			"is shown as \"remains\": burst image delete removes it. Of one whose build was killed nobody\n" +
			"knows whether it is whole, whatever the cloud says: it is marked, delete it." + imageExits,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(endpoint.Path(configFlag(cmd)))
			if err != nil {
				return err
			}
			all, err := allImages(cmd.Context(), cfg)
			if werr := writeImages(cmd.OutOrStdout(), all, asJSON); werr != nil {
				return werr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// allImages are those of all providers that have images; with an error, of those that answer.
func allImages(ctx context.Context, cfg *config.Config) ([]listedImage, error) {
	cluster, why := clusterID(cfg.Endpoint.ClusterFile())
	if cluster == "" {
		return nil, cli.WithHint(fmt.Errorf("the cluster's id is not known: %s", why.Text), "run this as root, or as burstd's user, on burstd's host")
	}
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	open, leases := openedOf(cfg), imaging.LeasesIn(cfg.Endpoint.State)
	all := []listedImage{}
	var errs []error
	for _, p := range cfg.Providers {
		provider, err := open.get(ctx, p.Name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		imager, ok := provider.(cloud.Imager)
		if !ok {
			continue
		}
		images, err := imager.Images(ctx, cluster)
		if err != nil {
			errs = append(errs, open.explain(fmt.Errorf("provider %s: %w", p.Name, err)))
		}
		for _, i := range images {
			if slices.ContainsFunc(all, func(l listedImage) bool { return l.ID == i.ID }) {
				continue // of another provider in the same account and region
			}
			unfinished, err := leases.Unfinished(i.Token)
			if err != nil {
				errs = append(errs, err)
			}
			all = append(all, listedImage{Image: i, Provider: p.Name, UsedBy: usersOf(cfg, i.ID), Unfinished: unfinished, imager: imager})
		}
	}
	return all, errors.Join(errs...)
}

// usersOf are the pools that name the image, whichever of their sources does.
func usersOf(cfg *config.Config, id string) []string {
	pools := []string{}
	for _, s := range cfg.Sources() {
		if isImage(s.Power.Image, id) && !slices.Contains(pools, s.Power.Name) {
			pools = append(pools, s.Power.Name)
		}
	}
	return pools
}

func writeImages(w io.Writer, all []listedImage, asJSON bool) error {
	if asJSON {
		return writeJSON(w, append([]listedImage{}, all...)) // [] in JSON, not null
	}
	rows := [][]string{{"ID", "PROVIDER", "POOL", "MADE FROM", "MADE", "SIZE", "STATE", "USED BY"}}
	for _, i := range all {
		size := "-"
		if i.Bytes > 0 {
			size = fmt.Sprintf("%.1f GiB", float64(i.Bytes)/(1<<30))
		}
		state := string(i.State)
		if i.State == cloud.ImagePending && i.Progress >= 0 {
			state = fmt.Sprintf("%s, %d %%", state, i.Progress)
		}
		if i.Why != "" {
			state += ": " + i.Why
		}
		if i.Unfinished {
			state += "; its build was killed: delete it"
		}
		rows = append(rows, []string{i.ID, i.Provider, cmp.Or(i.Pool, "-"), cmp.Or(i.Source, "-"), stamp(i.Made), size, state, cmp.Or(strings.Join(i.UsedBy, ","), "-")})
	}
	return writeTable(w, rows)
}

type imageDeleteOptions struct {
	config string
	ids    []string
	yes    bool
	in     io.Reader
}

func imageDeleteCommand() *cobra.Command {
	var o imageDeleteOptions
	cmd := &cobra.Command{
		Use:   "delete ID...",
		Short: "Delete images that Burst has made for this cluster",
		Long: "Delete images that Burst has made for this cluster, with their snapshots. One that a pool\n" +
			"of burst.toml or of the burstd that runs names is not deleted, nor any that Burst has not made." + imageExits,
		Example: "  burst image delete ami-0123456789abcdef0\n  burst image delete snapshot:cb676a46-66fd-4dfb-b839-443f2e6c0b60 --yes",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.config, o.ids, o.in = configFlag(cmd), args, cmd.InOrStdin()
			return runImageDelete(cmd.Context(), streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}, o)
		},
	}
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	return cmd
}

func runImageDelete(ctx context.Context, s streams, o imageDeleteOptions) error {
	if !o.yes && !isTerminal(o.in) {
		return errNoTerminal("burst image delete")
	}
	cfg, err := config.Load(endpoint.Path(o.config))
	if err != nil {
		return err
	}
	all, err := allImages(ctx, cfg)
	named, perr := pickImages(all, o.ids)
	if perr != nil {
		return errors.Join(perr, err) // a provider that does not answer may have what is not found
	}
	if err := burstdUses(ctx, cfg, o.ids); err != nil {
		return err
	}
	if !o.yes {
		if err := writeImages(s.err, named, false); err != nil {
			return err
		}
		if err := confirm(ctx, o.in, s.err, "yes"); err != nil {
			return err
		}
	}
	cluster, _ := clusterID(cfg.Endpoint.ClusterFile())
	var errs []error
	for _, i := range named {
		if err := i.imager.DeleteImage(ctx, cluster, i.ID); err != nil {
			errs = append(errs, fmt.Errorf("deleting image %s: %w", i.ID, err))
			continue
		}
		if _, err := fmt.Fprintf(s.out, "%s is deleted.\n", printable(i.ID)); err != nil {
			return err
		}
	}
	if len(errs) > 0 {
		return cli.WithHint(errors.Join(errs...), "burst image list shows what is left; the same command again goes on")
	}
	return nil
}

// pickImages finds the images that are named, each once, or says why one must not go:
// then none does.
func pickImages(all []listedImage, ids []string) (named []listedImage, err error) {
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		found := false
		for _, i := range all {
			if i.ID != id {
				continue
			}
			if len(i.UsedBy) > 0 {
				return nil, cli.WithHint(fmt.Errorf("image %s is that of pool %s; nothing is deleted", id, strings.Join(i.UsedBy, ", ")), "write another into burst.toml first, and restart burstd")
			}
			found, named = true, append(named, i)
		}
		if !found {
			return nil, cli.WithHint(fmt.Errorf("no image %s of this cluster was made by Burst; nothing is deleted", printable(id)), "burst image list shows them")
		}
	}
	return named, nil
}
