package aws

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

// placements remembers the cluster placement groups of pools, one for each zone. A group is made
// when a launch first needs it, and removed by Tidy once it has been empty
// for a while.
type placements struct {
	mu     sync.Mutex
	groups map[string]*group // by name
}

type group struct {
	mu    sync.Mutex // held while EC2 is asked to make or remove it
	there bool
	used  time.Time // by a launch
	empty time.Time // since when Tidy has seen it so; zero: it has not
}

func (g *placements) of(name string) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups == nil {
		g.groups = map[string]*group{}
	}
	if g.groups[name] == nil {
		g.groups[name] = &group{}
	}
	return g.groups[name]
}

func (g *placements) ensure(ctx context.Context, p *Provider, r cloud.LaunchRequest, name string) error {
	one := g.of(name)
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.there {
		_, err := p.clients.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{
			GroupName: &name, Strategy: types.PlacementStrategyCluster,
			TagSpecifications: tagged(p.poolTags(r.Cluster, r.Pool), types.ResourceTypePlacementGroup),
		})
		if err != nil && !isCode(err, "Duplicate") && !isCode(err, "AlreadyExists") {
			return err
		}
		one.there = true
	}
	one.used, one.empty = time.Now(), time.Time{}
	return nil
}

// forget is called when EC2 does not have the group.
func (g *placements) forget(name string) {
	one := g.of(name)
	one.mu.Lock()
	defer one.mu.Unlock()
	one.there = false
}
