package vultr

import (
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud/recent"
)

// How long answers hold.
const (
	listsAge     = time.Hour // plans with their prices, operating systems
	imageAge     = 5 * time.Minute
	availableAge = 30 * time.Second
)

// knowledge is what the provider has read of Vultr's lists.
type knowledge struct {
	plans     recent.Answers[[]plan]
	available recent.Answers[map[string]bool] // plans that the region has, by their kind
	systems   recent.Answers[[]govultr.OS]
	snapshots recent.Answers[string] // id, by what the pool names
	sshKeys   recent.Answers[[]govultr.SSHKey]
}
