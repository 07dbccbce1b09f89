package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
)

// Login finds a name and a password for a registry; empty: there are none.
type Login func(host string) (user, password string)

// Registry asks registries what they have. The zero value asks without a login.
type Registry struct {
	HTTP  *http.Client // nil: http.DefaultClient
	Login Login
	// Plain asks by http, as the tools do with --no-https.
	Plain bool
}

// manifests are the kinds of answers that a tag may have: a manifest, or an index of them
// for several kinds of machines.
var manifests = []string{
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.docker.distribution.manifest.v2+json",
}

// Manifests are at most so long, by the OCI distribution specification; a token's answer
// is shorter.
const maxAnswer = 4 << 20

// Resolve asks the registry which image a tag is now, so that all nodes run the same one.
// The digest is that of the bytes that came, not what the registry calls them.
func (g Registry) Resolve(ctx context.Context, r Ref) (Image, error) {
	size := int64(0)
	if r.Digest == "" {
		body, err := g.get(ctx, r)
		if err != nil {
			return Image{Ref: r}, fmt.Errorf("container %s: %w", r, err)
		}
		sum := sha256.Sum256(body)
		r.Digest, r.Tag = "sha256:"+hex.EncodeToString(sum[:]), ""
		size = g.takes(ctx, r, body)
	}
	return Image{Ref: r, Key: keyOf(r.Kind, r.Digest), Size: size}, nil
}

// takes is about how much of the disk making the image takes, by its manifest: layers are
// compressed, and lie there as they came, unpacked, and in the SIF file. 0: it is not known.
func (g Registry) takes(ctx context.Context, r Ref, body []byte) int64 {
	var m struct {
		Layers []struct {
			Size int64 `json:"size"`
		} `json:"layers"`
		Manifests []struct {
			Digest   string `json:"digest"`
			Platform struct {
				Architecture string `json:"architecture"`
				OS           string `json:"os"`
			} `json:"platform"`
		} `json:"manifests"`
	}
	if json.Unmarshal(body, &m) != nil {
		return 0
	}
	for _, one := range m.Manifests {
		if one.Platform.OS == "linux" && one.Platform.Architecture == runtime.GOARCH && digestHex.MatchString(one.Digest) {
			r.Digest = one.Digest
			body, err := g.get(ctx, r)
			if err != nil || json.Unmarshal(body, &m) != nil {
				return 0 // it is a guess
			}
			break
		}
	}
	n := int64(0)
	for _, l := range m.Layers {
		if l.Size < 0 || l.Size > 1<<50 {
			return 0
		}
		n += l.Size
	}
	if r.Kind == ORAS {
		return n
	}
	return n * 7 / 2
}

// get fetches the manifest, with a token if the registry wants one.
func (g Registry) get(ctx context.Context, r Ref) ([]byte, error) {
	at := r.api(g.Plain)
	body, challenge, err := g.ask(ctx, at, "")
	if err != nil || challenge == "" {
		return body, err
	}
	auth, err := g.answer(ctx, r, challenge)
	if err != nil {
		return nil, err
	}
	body, challenge, err = g.ask(ctx, at, auth)
	if err == nil && challenge != "" {
		err = errors.New("the registry wants another login: `apptainer registry login`, or APPTAINER_DOCKER_USERNAME and APPTAINER_DOCKER_PASSWORD")
	}
	return body, err
}

// ask sends one question. challenge is what the registry wants to be answered first.
func (g Registry) ask(ctx context.Context, at *url.URL, auth string) (body []byte, challenge string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", strings.Join(manifests, ", "))
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	client := g.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", g.hint(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, "", err
	case len(body) > maxAnswer:
		return nil, "", fmt.Errorf("%s answers with more than %d bytes", at.Host, maxAnswer)
	case resp.StatusCode == http.StatusUnauthorized:
		if challenge = resp.Header.Get("WWW-Authenticate"); challenge == "" {
			return nil, "", fmt.Errorf("%s refuses, and does not say what login it wants", at.Host)
		}
		return nil, challenge, nil
	case resp.StatusCode == http.StatusNotFound:
		return nil, "", fmt.Errorf("%s has no such image", at.Host)
	case resp.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("%s answers %s: %.200q", at.Host, resp.Status, body)
	}
	return body, "", nil
}

// hint adds what to do about a registry that speaks http.
func (g Registry) hint(err error) error {
	if strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		return fmt.Errorf("%w; for a registry without https: export APPTAINER_NOHTTPS=true", err)
	}
	return err
}

var parameter = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// answer makes the Authorization that a challenge asks for.
func (g Registry) answer(ctx context.Context, r Ref, challenge string) (string, error) {
	user, password := "", ""
	if g.Login != nil {
		user, password = g.Login(r.Host)
	}
	kind, rest, _ := strings.Cut(challenge, " ")
	if strings.EqualFold(kind, "basic") {
		if user == "" {
			return "", errors.New("the registry wants a login: `apptainer registry login`, or APPTAINER_DOCKER_USERNAME and APPTAINER_DOCKER_PASSWORD")
		}
		return basic(user, password), nil
	}
	said := map[string]string{}
	for _, m := range parameter.FindAllStringSubmatch(rest, -1) {
		said[m[1]] = m[2]
	}
	realm, err := url.Parse(said["realm"])
	switch {
	case !strings.EqualFold(kind, "bearer") || err != nil || realm.Host == "":
		return "", fmt.Errorf("the registry wants a login of a kind that is not known here: %.200q", challenge)
	case realm.Scheme != "https" && !g.Plain:
		return "", fmt.Errorf("the registry wants a login to be sent without https, to %s", realm.Host)
	}
	q := realm.Query()
	for _, name := range []string{"service", "scope"} {
		if said[name] != "" {
			q.Set(name, said[name])
		}
	}
	realm.RawQuery = q.Encode()
	auth := ""
	if user != "" {
		auth = basic(user, password)
	}
	body, refused, err := g.ask(ctx, realm, auth)
	if err == nil && refused != "" {
		err = errors.New("the login is refused")
	}
	if err != nil {
		return "", fmt.Errorf("asking %s for a token: %w", realm.Host, err)
	}
	var t struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &t); err != nil {
		return "", fmt.Errorf("%s answers with no token: %w", realm.Host, err)
	}
	if t.Token == "" {
		t.Token = t.Access
	}
	return "Bearer " + t.Token, nil
}
