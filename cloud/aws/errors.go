package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/burst-hpc/burst/cloud"
)

// kinds says what the codes of EC2 and its sister services mean. Codes that
// are not here are read by their form (kindOfCode).
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
var kinds = map[string]cloud.Kind{
	// The offering has none now; another may. EC2 sends some of these with status 500.
	"InsufficientInstanceCapacity":         cloud.Capacity,
	"InsufficientHostCapacity":             cloud.Capacity,
	"InsufficientReservedInstanceCapacity": cloud.Capacity,
	"InsufficientCapacity":                 cloud.Capacity,
	"InsufficientCapacityOnHost":           cloud.Capacity,
	"InsufficientVolumeCapacity":           cloud.Capacity,
	"InsufficientAddressCapacity":          cloud.Capacity,
	"InsufficientFreeAddressesInSubnet":    cloud.Capacity, // of this zone's subnet
	"ReservationCapacityExceeded":          cloud.Capacity,
	"SpotMaxPriceTooLow":                   cloud.Capacity,
	"UnfulfillableCapacity":                cloud.Capacity,
	"Unsupported":                          cloud.Capacity, // the type is not sold in this zone
	"IdempotentInstanceTerminated":         cloud.Capacity, // the token's instances have ended

	// The account may not have more.
	"VcpuLimitExceeded":                cloud.Quota,
	"InstanceLimitExceeded":            cloud.Quota,
	"MaxSpotInstanceCountExceeded":     cloud.Quota,
	"SpotInstanceCountLimitExceeded":   cloud.Quota,
	"MaxSpotFleetRequestCountExceeded": cloud.Quota,
	"MaxFleetCountExceeded":            cloud.Quota,
	"MaxConfigLimitExceededException":  cloud.Quota,
	"ResourceCountExceeded":            cloud.Quota,

	"RequestLimitExceeded":                   cloud.Throttled,
	"Throttling":                             cloud.Throttled,
	"ThrottlingException":                    cloud.Throttled,
	"ThrottledException":                     cloud.Throttled,
	"RequestThrottled":                       cloud.Throttled,
	"RequestThrottledException":              cloud.Throttled,
	"TooManyRequestsException":               cloud.Throttled,
	"BandwidthLimitExceeded":                 cloud.Throttled,
	"ProvisionedThroughputExceededException": cloud.Throttled,
	"EC2ThrottledException":                  cloud.Throttled,

	// Credentials missing, expired or not allowed. Those about the time are explained by hints.
	"AuthFailure":                 cloud.Auth,
	"UnauthorizedOperation":       cloud.Auth,
	"AccessDenied":                cloud.Auth,
	"AccessDeniedException":       cloud.Auth,
	"Blocked":                     cloud.Auth,
	"ExpiredToken":                cloud.Auth,
	"ExpiredTokenException":       cloud.Auth,
	"IncompleteSignature":         cloud.Auth,
	"InvalidAccessKeyId":          cloud.Auth,
	"InvalidClientTokenId":        cloud.Auth,
	"InvalidIdentityToken":        cloud.Auth,
	"InvalidSignatureException":   cloud.Auth,
	"MissingAuthenticationToken":  cloud.Auth,
	"NotAuthorized":               cloud.Auth,
	"OptInRequired":               cloud.Auth,
	"PendingVerification":         cloud.Auth,
	"RequestExpired":              cloud.Auth,
	"RequestInTheFuture":          cloud.Auth,
	"RequestTimeTooSkewed":        cloud.Auth,
	"SignatureDoesNotMatch":       cloud.Auth,
	"UnrecognizedClientException": cloud.Auth,
	"AuthFailure.ServiceLinkedRoleCreationNotPermitted": cloud.Auth,

	// A server's fault: the outcome may be unknown.
	"InternalError":               cloud.Transient,
	"InternalFailure":             cloud.Transient,
	"InternalServerError":         cloud.Transient,
	"RequestTimeout":              cloud.Transient,
	"RequestTimeoutException":     cloud.Transient,
	"ServiceUnavailable":          cloud.Transient,
	"ServiceUnavailableException": cloud.Transient,
	"Unavailable":                 cloud.Transient,

	"RequestResourceCountExceeded": cloud.Invalid, // more at once than one call may name
	"IdempotentParameterMismatch":  cloud.Invalid,
	"UnsupportedOperation":         cloud.Invalid,
}

// hints say what to do about errors that an admin must mend.
var hints = map[string]string{
	"AuthFailure":                 "check the credentials of this provider with `aws sts get-caller-identity`, and this host's clock",
	"UnauthorizedOperation":       "the IAM policy lacks this action: compare it with contrib/aws, and run `burst aws check`",
	"AccessDenied":                "the IAM policy lacks this action: compare it with contrib/aws, and run `burst aws check`",
	"AccessDeniedException":       "the IAM policy lacks this action: compare it with contrib/aws, and run `burst aws check`",
	"ExpiredToken":                "the credentials have expired: renew them, or give the controller a role",
	"ExpiredTokenException":       "the credentials have expired: renew them, or give the controller a role",
	"InvalidClientTokenId":        "AWS does not know this access key: check the profile and its partition (GovCloud and China have their own)",
	"UnrecognizedClientException": "AWS does not know this access key: check the profile and its partition (GovCloud and China have their own)",
	"OptInRequired":               "the account must subscribe to this service or Marketplace image, or enable the region, first",
	"PendingVerification":         "AWS is still verifying the account; it mails when it is done",
	"SignatureDoesNotMatch":       "the secret key is wrong, or this host's clock is: check both (chronyc tracking)",
	"QueueDoesNotExist":           queueHint,
	"NonExistentQueue":            queueHint,
	"RequestExpired":              clockHint,
	"RequestInTheFuture":          clockHint,
	"RequestTimeTooSkewed":        clockHint,
}

const (
	clockHint       = "this host's clock is off by minutes: set it (chronyc tracking), as AWS refuses requests that are not of now"
	queueHint       = "compare the URL in burst.toml with the stack's output QueueUrl; a queue of another region or account is not found either"
	credentialsHint = "no usable credentials: set up a role, a profile or the environment as docs/aws.md says"
)

// kindOfCode reads an error code: from the table, else by its form. Unknown
// codes are "", for the caller to read the status.
func kindOfCode(code string) cloud.Kind {
	code = bare(code)
	if k, ok := kinds[code]; ok {
		return k
	}
	for _, f := range []struct {
		has  func(s, part string) bool
		part string
		kind cloud.Kind
	}{
		{strings.HasSuffix, "LimitExceeded", cloud.Quota},
		{strings.HasPrefix, "Invalid", cloud.Invalid},
		{strings.HasPrefix, "Missing", cloud.Invalid},
		{strings.HasPrefix, "Unknown", cloud.Invalid},
		{strings.HasPrefix, "Malformed", cloud.Invalid},
		{strings.HasPrefix, "Unsupported", cloud.Invalid},
		{strings.HasSuffix, "NotFound", cloud.Invalid},
		{strings.HasSuffix, "Malformed", cloud.Invalid},
	} {
		if f.has(code, f.part) {
			return f.kind
		}
	}
	return ""
}

// bare takes the side off codes as state reasons and fleets write them.
func bare(code string) string {
	for _, side := range []string{"Client.", "Server.", "AWS.SimpleQueueService."} {
		code = strings.TrimPrefix(code, side)
	}
	return code
}

// kindOf reads a code with its message, where a code means two things.
func kindOf(code, message string) cloud.Kind {
	switch {
	case strings.Contains(message, "not supported in your requested Availability Zone"):
		return cloud.Capacity // whatever the code: another zone may have it
	case bare(code) == "AuthFailure" && strings.Contains(message, "Not authorized for images"):
		return cloud.Invalid // the image is somebody else's and private
	}
	return kindOfCode(code)
}

// codeError is an error that EC2 reports inside a good answer.
type codeError struct{ code, message string }

func (e *codeError) Error() string { return e.code + ": " + e.message }

// codeFailure is the cloud.Error of a code inside a good answer.
func codeFailure(op, code, message string) *cloud.Error {
	kind := kindOf(code, message)
	if kind == "" {
		kind = cloud.Transient
	}
	return &cloud.Error{Kind: kind, Op: op, Code: code, Err: withHint(&codeError{code, message}, hints[bare(code)])}
}

// failure turns what an SDK call returned into a cloud.Error; nil stays nil,
// and one that is a cloud.Error already stays as it is.
func failure(op string, err error) error {
	var known *cloud.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return callError(op, err)
}

func callError(op string, err error) *cloud.Error {
	var api smithy.APIError
	var response *awshttp.ResponseError
	var credentials *credentialsError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &cloud.Error{Kind: cloud.Transient, Op: op, Err: err}
	case errors.As(err, &credentials):
		return &cloud.Error{Kind: cloud.Auth, Op: op, Err: withHint(err, credentialsHint)}
	case errors.As(err, &api):
		e := &cloud.Error{Kind: kindOf(api.ErrorCode(), api.ErrorMessage()), Op: op, Code: api.ErrorCode(), Err: withHint(plain(err, api), hints[bare(api.ErrorCode())])}
		if e.Kind != "" {
			return e
		}
		e.Kind = cloud.Transient
		if errors.As(err, &response) && response.HTTPStatusCode()/100 == 4 {
			e.Kind = cloud.Invalid // refused: nothing has begun
		}
		return e
	}
	return &cloud.Error{Kind: cloud.Transient, Op: op, Err: err}
}

// plainError says what AWS said; the SDK's words around it, which hide it from
// those who read a job's comment, are in the error that it wraps.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// plain takes the SDK's operation, status and code out of the text: they are
// in the cloud.Error. The request's id stays, for AWS's support.
func plain(err error, api smithy.APIError) error {
	var operation *smithy.OperationError
	if api.ErrorMessage() == "" || !errors.As(err, &operation) {
		return err
	}
	said := api.ErrorMessage()
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.ServiceRequestID() != "" {
		said += " (request " + response.ServiceRequestID() + ")"
	}
	return &plainError{strings.Replace(err.Error(), operation.Error(), said, 1), err}
}

func withHint(err error, hint string) error {
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, hint)
}

// invalid is our own refusal of a request that can never succeed as it is.
func invalid(op, format string, args ...any) *cloud.Error {
	return &cloud.Error{Kind: cloud.Invalid, Op: op, Err: fmt.Errorf(format, args...), Settled: true}
}

// credentialsError marks what the credential chain says, which has no code.
type credentialsError struct{ error }

func (e *credentialsError) Unwrap() error { return e.error }

// credentials marks the errors of the chain, and stays silent about a cancelled
// wait. The metadata service comes last in the chain: where it does not answer,
// as on premises, there are no credentials. That must not be read as a network
// that is slow today, so the timeout is hidden.
type credentials struct{ aws.CredentialsProvider }

func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		var op *smithy.OperationError
		if errors.As(err, &op) && op.ServiceID == "ec2imds" {
			err = errors.New(err.Error())
		}
		return got, &credentialsError{err}
	}
	return got, err
}
