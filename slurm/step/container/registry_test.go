package container

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestResolve: a tag is what the registry answers with, by its bytes; a token is fetched
// where one is wanted.
func TestResolve(t *testing.T) {
	const body = `{"schemaVersion":2}`
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("/v2/open/manifests/1", func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "oci.image.index") {
			t.Error("it does not say that it takes an index")
		}
		w.Header().Set("Docker-Content-Digest", aDigest) // not to be believed
		fmt.Fprint(w, body)
	})
	mux.HandleFunc("/v2/closed/manifests/1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0k" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+server.URL+`/token?x=1",service="s",scope="repository:closed:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, body)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "me" || password != "pw" || r.FormValue("scope") != "repository:closed:pull" || r.FormValue("service") != "s" || r.FormValue("x") != "1" {
			w.WriteHeader(http.StatusUnauthorized)
			w.Header().Set("WWW-Authenticate", "Basic")
			return
		}
		fmt.Fprint(w, `{"token":"t0k"}`)
	})
	mux.HandleFunc("/v2/basic/manifests/1", func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "me" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, body)
	})
	mux.HandleFunc("/v2/long/manifests/1", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", maxAnswer+1)) })
	mux.HandleFunc("/v2/odd/manifests/1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Negotiate")
		w.WriteHeader(http.StatusUnauthorized)
	})
	want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body)))
	host := strings.TrimPrefix(server.URL, "http://")
	me := func(string) (string, string) { return "me", "pw" }
	for _, tt := range []struct {
		repo  string
		login Login
		err   string
	}{
		{"open", nil, ""},
		{"closed", me, ""},
		{"basic", me, ""},
		{"closed", nil, "asking " + host + " for a token"},
		{"basic", nil, "the registry wants a login"},
		{"gone", me, "has no such image"},
		{"long", me, "more than"},
		{"odd", me, "of a kind that is not known"},
	} {
		ref := Ref{Kind: Docker, Host: host, Repo: tt.repo, Tag: "1"}
		i, err := Registry{Plain: true, Login: tt.login}.Resolve(t.Context(), ref)
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", tt.repo, err, tt.err)
			}
		case err != nil || i.Digest != want || i.Tag != "" || i.Key != "docker-"+want[len("sha256:"):]:
			t.Errorf("%s: %+v, %v", tt.repo, i, err)
		}
	}
	if _, err := (Registry{}).Resolve(t.Context(), Ref{Kind: Docker, Host: host, Repo: "open", Tag: "1"}); err == nil || !strings.Contains(err.Error(), "APPTAINER_NOHTTPS") {
		t.Errorf("http for https: %v", err)
	}
	server.Close()
	if i, err := (Registry{}).Resolve(t.Context(), Ref{Kind: ORAS, Host: host, Repo: "open", Digest: aDigest}); err != nil || i.Key != "oras-"+aDigest[len("sha256:"):] {
		t.Errorf("a digest is not to be asked for: %+v, %v", i, err)
	}
}

func TestLogins(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	// bWU6cHc6eA== is me:pw:x
	text := `{"auths":{"h.org:5000":{"auth":"bWU6cHc6eA=="},"https://index.docker.io/v1/":{"auth":"aHViOnB3"},"bad":{"auth":"%%"}}}`
	if err := os.WriteFile(filepath.Join(home, ".docker/config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	login := Logins(func(string) string { return "" }, home)
	for host, want := range map[string]string{"h.org:5000": "me pw:x", "docker.io": "hub pw", "bad": " ", "other": " "} {
		if user, password := login(host); user+" "+password != want {
			t.Errorf("%s: %s %s, want %s", host, user, password, want)
		}
	}
	env := map[string]string{"APPTAINER_DOCKER_USERNAME": "you", "APPTAINER_DOCKER_PASSWORD": "p"}
	if user, password := Logins(func(n string) string { return env[n] }, home)("h.org:5000"); user != "you" || password != "p" {
		t.Errorf("the environment's: %s %s", user, password)
	}
}

// TestTakes: what a pull needs is guessed by the layers for this machine.
func TestTakes(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	answers := map[string]string{
		"one":   `{"layers":[{"size":100},{"size":300}]}`,
		"index": fmt.Sprintf(`{"manifests":[{"digest":"sha256:0","platform":{"os":"linux","architecture":"other"}},{"digest":%q,"platform":{"os":"linux","architecture":%q}}]}`, aDigest, runtime.GOARCH),
		"gone":  fmt.Sprintf(`{"manifests":[{"digest":"sha256:%064d","platform":{"os":"linux","architecture":%q}}]}`, 1, runtime.GOARCH),
		"odd":   `{"layers":[{"size":-1}]}`,
		"text":  `hello`,
		aDigest: `{"layers":[{"size":1000}]}`,
	}
	mux.HandleFunc("/v2/x/manifests/{which}", func(w http.ResponseWriter, r *http.Request) {
		if text, ok := answers[r.PathValue("which")]; ok {
			fmt.Fprint(w, text)
			return
		}
		http.NotFound(w, r)
	})
	for _, tt := range []struct {
		kind Kind
		tag  string
		want int64
	}{{Docker, "one", 1400}, {ORAS, "one", 400}, {Docker, "index", 3500}, {Docker, "gone", 0}, {Docker, "odd", 0}, {Docker, "text", 0}} {
		i, err := Registry{Plain: true}.Resolve(t.Context(), Ref{Kind: tt.kind, Host: strings.TrimPrefix(server.URL, "http://"), Repo: "x", Tag: tt.tag})
		if err != nil || i.Size != tt.want {
			t.Errorf("%s %s: %d, %v, want %d", tt.kind, tt.tag, i.Size, err, tt.want)
		}
	}
}
