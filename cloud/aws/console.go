package aws

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Consoler = (*Provider)(nil)

// maxConsole is how much of a console is shown, in bytes; EC2 keeps as much.
const maxConsole = 64 << 10

// Console implements cloud.Consoler. Types on Nitro show the console as it is
// now; older ones as it was shortly after the boot, some minutes late.
func (p *Provider) Console(ctx context.Context, id string) (string, error) {
	out, err := p.clients.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &id, Latest: aws.Bool(true)})
	var api smithy.APIError
	if errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "Unsupported") {
		out, err = p.clients.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &id})
	}
	if err != nil {
		return "", failure("console", fmt.Errorf("reading the console of %s: %w", id, err))
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(aws.ToString(out.Output)))
	if err != nil {
		return "", &cloud.Error{Kind: cloud.Transient, Op: "console", Err: fmt.Errorf("reading the console of %s: %w", id, err)}
	}
	return lastLines(text, maxConsole), nil
}

// lastLines is the end of text, at most size bytes of it, from the beginning of
// a line on where one begins there.
func lastLines(text []byte, size int) string {
	if len(text) > size {
		text = text[len(text)-size:]
		if i := bytes.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
			text = text[i+1:]
		}
	}
	return strings.ToValidUTF8(string(text), "")
}
