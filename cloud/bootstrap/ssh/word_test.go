package ssh_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh/sshtest"
)

// TestWord: a host that shall say a word is sent nothing, and its key is not kept, before
// it has said it; whoever answered in its place until then has got nothing, and keeps
// nobody from coming.
func TestWord(t *testing.T) {
	w := newWorld(t)
	const file = "/var/lib/burst/word"
	tell := func(m *sshtest.Host, word string) {
		m.Do("mkdir -p /var/lib/burst")
		m.Put(file, []byte(word+"\n"))
	}
	secret := ssh.Work{Script: []byte("echo run >>/var/log/runs; cat secret"), Limit: time.Minute,
		Files: func(string) ([]ssh.File, error) {
			return []ssh.File{{Name: "secret", Mode: 0o400, Data: []byte("the MUNGE key\n")}}, nil
		}}
	kept := func(h ssh.Host) bool {
		key, err := w.cfg.Keys.Key(h.Instance)
		if err != nil {
			t.Error(err)
		}
		return key != nil
	}
	for _, tt := range []struct {
		name, says, want string
		user             string
	}{
		{"none", "", "its user data, which tells it a word, has not been run", ""},
		{"another", "OTHER", "it says another word than the cloud has told it", ""},
		{"more", "WORD2", "it says another word", ""},
		{"right", "WORD", "", ""},
		{"right by sudo", "WORD", "", "deploy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, net: w.net, cfg: w.cfg, opt: w.opt}
			o := w.opt
			o.User = tt.user
			m := w.net.Host(o)
			h := w.host(m, strings.ReplaceAll(tt.name, " ", "-"))
			h.Word = "WORD"
			if tt.says != "" {
				tell(m, tt.says)
			}
			err := ssh.New(w.cfg).Run(w.within(time.Minute), h, secret)
			if tt.want == "" {
				if err != nil || m.Read("/var/log/runs") != "run\n" || !kept(h) || !strings.Contains(w.log(h.Node), "the MUNGE key") {
					t.Errorf("%v, ran %q, key kept: %v", err, m.Read("/var/log/runs"), kept(h))
				}
				return
			}
			if !errors.Is(err, ssh.ErrGivenUp) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if there := m.Do("ls -A /var/lib/burst/setup/*"); kept(h) || there != "" || m.Read("/var/log/runs") != "" {
				t.Errorf("its key is kept: %v; it was sent %q, and ran %q", kept(h), there, m.Read("/var/log/runs"))
			}
		})
	}
	t.Run("another answers first", func(t *testing.T) {
		t.Parallel()
		w := &world{T: t, net: w.net, cfg: w.cfg, opt: w.opt}
		impostor, m := w.net.Host(w.opt), w.net.Host(w.opt)
		h := w.host(impostor, "first")
		h.Word = "WORD"
		if err := ssh.New(w.cfg).Run(w.within(2*time.Second), h, secret); !errors.Is(err, ssh.ErrGivenUp) || kept(h) {
			t.Errorf("the impostor: %v, key kept: %v", err, kept(h))
		}
		h.Addr = m.IP
		done := make(chan error, 1)
		c := w.cfg
		c.Refused = 30 * time.Second
		go func() { done <- ssh.New(c).Run(w.within(time.Minute), h, secret) }()
		poll(t, 20*time.Second, "it has no word yet", func() bool { return strings.Count(w.log("first"), "has not been run") == 2 })
		tell(m, "WORD")
		if err := <-done; err != nil || m.Read("/var/log/runs") != "run\n" || impostor.Read("/var/log/runs") != "" {
			t.Errorf("%v, ran %q there, %q at the impostor's", err, m.Read("/var/log/runs"), impostor.Read("/var/log/runs"))
		}
		// Its key is kept now: whoever has another one is refused, whatever he says.
		tell(impostor, "WORD")
		h.Addr = impostor.IP
		if err := ssh.New(w.cfg).Run(w.within(time.Minute), h, secret); !errors.Is(err, ssh.ErrHostKey) {
			t.Errorf("the impostor, later: %v", err)
		}
	})
}
