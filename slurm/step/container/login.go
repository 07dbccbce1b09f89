package container

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// hubLogin is the name under which the logins of docker.io are kept.
const hubLogin = "https://index.docker.io/v1/"

// Logins are those that the tools would use: of the environment, else of the files that
// `apptainer registry login` and `docker login` write in home.
func Logins(env func(string) string, home string) Login {
	return func(host string) (user, password string) {
		for _, tool := range prefixes {
			if user = env(tool + "DOCKER_USERNAME"); user != "" {
				return user, env(tool + "DOCKER_PASSWORD")
			}
		}
		for _, file := range []string{".apptainer/docker-config.json", ".singularity/docker-config.json", ".docker/config.json"} {
			text, err := os.ReadFile(filepath.Join(home, file))
			if err != nil {
				continue // it need not be there
			}
			if user, password = loginOf(text, host); user != "" {
				return user, password
			}
		}
		return "", ""
	}
}

// loginOf reads a login of Docker's file of them.
func loginOf(text []byte, host string) (user, password string) {
	var file struct {
		Auths map[string]struct {
			Auth string `json:"auth"`
		} `json:"auths"`
	}
	if json.Unmarshal(text, &file) != nil {
		return "", ""
	}
	names := []string{host, "https://" + host, "http://" + host}
	if host == hub {
		names = append(names, hubLogin)
	}
	for _, name := range names {
		plain, err := base64.StdEncoding.DecodeString(file.Auths[name].Auth)
		if user, password, ok := strings.Cut(string(plain), ":"); err == nil && ok {
			return user, password
		}
	}
	return "", ""
}
