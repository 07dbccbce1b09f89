package aws

import (
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/recent"
)

// How long answers hold.
const (
	typesAge    = 6 * time.Hour // AWS adds types and zones by the month
	spotAge     = 5 * time.Minute
	onDemandAge = time.Hour
	quotaAge    = time.Hour
	imageAge    = 5 * time.Minute // of a parameter's value
	silenceAge  = 10 * time.Minute
	failedAge   = 15 * time.Second // of a question that nothing else answers: so often it is asked for several pools
)

// knowledge is what the provider has read of AWS's catalogs.
type knowledge struct {
	types    recent.Answers[cloud.InstanceType] // without zones, by name
	zones    recent.Answers[[]string]           // that offer a type, by its name
	spot     recent.Answers[[]spotPrice]        // by type
	onDemand recent.Answers[cloud.OfferingPrice]
	quotas   recent.Answers[limit] // by code
	// quotaTurn is held while quotas are looked at.
	quotaTurn sync.Mutex
	images    recent.Answers[string] // id, by the parameter's name
	// failed are services that could not be asked a moment ago: what they would
	// tell is done without, and said once.
	failed recent.Answers[error]
}
