package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/burst-hpc/burst/cloud"
)

// answered is an error as the SDK returns it for an answer of EC2.
func answered(status int, code, message string) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: "RunInstances", Err: &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
			Err:      &smithy.GenericAPIError{Code: code, Message: message},
		},
	}}
}

func TestFailure(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want cloud.Kind
		hint string
	}{
		{"no capacity, which EC2 sends as 500", answered(500, "InsufficientInstanceCapacity", ""), cloud.Capacity, ""},
		{"no addresses", answered(400, "InsufficientFreeAddressesInSubnet", ""), cloud.Capacity, ""},
		{"type not in zone", answered(400, "Unsupported", ""), cloud.Capacity, ""},
		{"type not in zone, as fleets say it", answered(400, "InvalidFleetConfiguration", "Your requested instance type (p4d.24xlarge) is not supported in your requested Availability Zone (us-east-1e)."), cloud.Capacity, ""},
		{"quota", answered(400, "VcpuLimitExceeded", ""), cloud.Quota, ""},
		{"spot quota", answered(400, "MaxSpotInstanceCountExceeded", ""), cloud.Quota, ""},
		{"a limit not in the table", answered(400, "PlacementGroupLimitExceeded", ""), cloud.Quota, ""},
		{"throttled is no quota", answered(503, "RequestLimitExceeded", ""), cloud.Throttled, ""},
		{"throttled elsewhere", answered(400, "ThrottlingException", ""), cloud.Throttled, ""},
		{"credentials", answered(401, "AuthFailure", "AWS was not able to validate the provided access credentials"), cloud.Auth, "get-caller-identity"},
		{"image of others", answered(400, "AuthFailure", "Not authorized for images: [ami-1]"), cloud.Invalid, ""},
		{"policy", answered(403, "UnauthorizedOperation", ""), cloud.Auth, "IAM policy"},
		{"expired", answered(400, "ExpiredToken", ""), cloud.Auth, "expired"},
		{"clock", answered(400, "RequestExpired", ""), cloud.Auth, "clock"},
		{"key", answered(403, "InvalidClientTokenId", ""), cloud.Auth, "access key"},
		{"no credentials at all", fmt.Errorf("get identity: %w", &credentialsError{errors.New("no EC2 IMDS role found")}), cloud.Auth, "no usable credentials"},
		{"token reused", answered(400, "IdempotentParameterMismatch", ""), cloud.Invalid, ""},
		{"unknown image", answered(400, "InvalidAMIID.NotFound", ""), cloud.Invalid, ""},
		{"unknown code, refused", answered(400, "SomethingNew", ""), cloud.Invalid, ""},
		{"unknown code, server's fault", answered(500, "SomethingNew", ""), cloud.Transient, ""},
		{"server's fault", answered(500, "InternalError", ""), cloud.Transient, ""},
		{"gateway's page", &smithy.DeserializationError{Err: errors.New("EOF")}, cloud.Transient, ""},
		{"network", errors.New("connection reset by peer"), cloud.Transient, ""},
		{"cancelled", fmt.Errorf("get identity: %w", context.Canceled), cloud.Transient, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := failure("launch", fmt.Errorf("launching: %w", tt.err))
			if got := cloud.KindOf(err); got != tt.want {
				t.Errorf("kind %q, want %q", got, tt.want)
			}
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.hint) {
				t.Errorf("%q does not wrap %q with hint %q", err, tt.err, tt.hint)
			}
		})
	}
	if failure("launch", nil) != nil {
		t.Error("no error is a failure")
	}
}

func TestFailureKeepsKind(t *testing.T) {
	held := &cloud.Error{Kind: cloud.Throttled, Op: "launch", Err: errors.New("held back")}
	if err := failure("list", fmt.Errorf("listing: %w", held)); !errors.Is(err, held) || cloud.KindOf(err) != cloud.Throttled {
		t.Errorf("%v is not %v", err, held)
	}
}

// TestFailureIsPlain: what AWS says reaches a job's comment, not the SDK's
// account of the call.
func TestFailureIsPlain(t *testing.T) {
	err := failure("launch", fmt.Errorf("RunInstances of 2: %w", answered(400, "InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist")))
	const want = "launch: invalid (InvalidAMIID.NotFound): RunInstances of 2: The image id '[ami-1]' does not exist"
	if !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "StatusCode") {
		t.Errorf("%q, want %q", err, want)
	}
}
