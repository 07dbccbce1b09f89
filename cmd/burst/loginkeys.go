package main

import (
	"fmt"
	"os"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

// checkLoginKeys looks at the keys that Vultr puts onto instances which burstd
// sets up over SSH: whether there is one, burstd may read it, and it is burstd's.
func checkLoginKeys(cfg *config.Config, who reader) []conf.Finding {
	var all []conf.Finding
	for _, p := range cfg.Sources() {
		provider, _ := cfg.Provider(p.Power.Provider)
		if provider.Kind != "vultr" {
			continue
		}
		keys := provider.Vultr.Pools[p.Power.Name]
		path := keys.SSHPublicKey
		switch {
		case path != "":
			text, err := os.ReadFile(path)
			if err == nil {
				err = who.opens(path, 0o4)
			}
			if err == nil {
				if err = vultr.CheckPublicKey(string(text)); err != nil {
					err = fmt.Errorf("%s %w", path, err)
				}
			}
			f := who.found(conf.Finding{Level: conf.OK, Key: "ssh_public_key", Have: path, Why: "burstd may read it."}, err)
			all = append(all, f)
			if f.Level != conf.OK || p.SSH == nil || p.SSH.Auth.KeyFile == "" || len(keys.SSHKeys) > 0 {
				continue // of the keys that the account has we know no more than their names
			}
			if same, err := ssh.Belongs(p.SSH.Auth.KeyFile, text); err == nil && !same { // what else is wrong with the key is said of it
				all = append(all, conf.Finding{Level: conf.Advice, Key: "ssh_public_key", Have: path,
					Why: fmt.Sprintf("ssh.key of pool %s, %s, is not its private key: burstd cannot log in with it, unless the image lets it.", p.Power.Name, p.SSH.Auth.KeyFile)})
			}
		case p.SSH != nil && len(keys.SSHKeys) == 0:
			all = append(all, conf.Finding{Level: conf.Advice, Key: "ssh_public_key",
				Why: fmt.Sprintf("Vultr puts no key onto the instances of pool %s, which burstd sets up over SSH: "+
					"write ssh_public_key or ssh_keys, unless the image has burstd's key.", p.Power.Name)})
		}
	}
	return all
}
