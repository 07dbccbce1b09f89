package main

import (
	"context"
	"slices"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// checkUnfinished finds pools of a provider whose image is one of which nobody knows whether it is
// whole. The cloud is asked only where there is such an image.
func checkUnfinished(ctx context.Context, cfg *config.Config, name string, provider cloud.Provider) (all []aws.Finding) {
	imager, ok := provider.(cloud.Imager)
	cluster, _ := clusterID(cfg.Endpoint.ClusterFile())
	if !ok || cluster == "" {
		return nil
	}
	tokens, err := imaging.LeasesIn(cfg.Endpoint.State).AllUnfinished()
	if err == nil && len(tokens) == 0 {
		return nil
	}
	var images []cloud.Image
	if err == nil {
		images, err = imager.Images(ctx, cluster)
	}
	if err != nil {
		return []aws.Finding{{Level: aws.LevelUnknown, Subject: "images", Text: err.Error()}}
	}
	for _, s := range cfg.Sources() {
		if s.Power.Provider != name {
			continue
		}
		for _, i := range images {
			if isImage(s.Power.Image, i.ID) && slices.Contains(tokens, i.Token) {
				all = append(all, aws.Finding{Level: aws.LevelWarning, Subject: "pool " + s.Power.Name + ", image", Text: i.ID + " may not be whole: its build was killed",
					Hint: "make another by burst image build, and delete this one by burst image delete"})
			}
		}
	}
	return all
}
