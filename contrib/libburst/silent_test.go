package libburst

import (
	"testing"
	"time"
)

// hears reads a packet.
func (f *fake) hears(want string) {
	f.conn.SetReadDeadline(time.Now().Add(time.Minute)) // fails only where it is closed
	packet := make([]byte, 100)
	n, err := f.conn.Read(packet)
	if err != nil || string(packet[:n]) != want {
		f.t.Errorf("the program says %q, %v, want %q", packet[:n], err, want)
	}
}

func (f *fake) says(words string) {
	if _, err := f.conn.Write([]byte(words)); err != nil {
		f.t.Error(err)
	}
}

// TestSilent: burst-srun does not answer in time, as when the file system hangs in which
// it looks at a checkpoint. It is not asked more meanwhile, nor waited for again, and is
// heard when it answers.
func TestSilent(t *testing.T) {
	t.Parallel()
	f := listen(t)
	memory := goodPage(t)
	done := make(chan struct{})
	go func() { defer close(done); f.answers("welcome", memory) }()
	p := talk(t, buildTalk(t), "BURST_LIB="+f.path)
	p.want("init", "0")
	<-done
	silent := func(call, word, want string) {
		t.Helper()
		p.want(call, want)
		f.hears(word)
		for range 3 {
			p.want("should", "0")
			p.want("connected", "1")
		}
		began := time.Now()
		p.want("begin 4096", " -10")
		p.want("commit", "-10")
		p.want("abort", "-10")
		if took := time.Since(began); took >= 3*patience {
			t.Errorf("it has waited again, for %s", took)
		}
	}
	asks := func(call, word, answer, want string) {
		t.Helper()
		go func() { f.hears(word); f.says(answer) }()
		p.want(call, want)
	}
	order(t, memory, 2)
	silent("begin 4096", "begin 4096", " -10")
	p.want("want", "0")
	f.says("folder /a") // late: the program is to write there
	p.want("should", "2")
	p.want("want", "2") // and has not heard it by this
	asks("begin 4096", "begin 4096", "no busy", "/a 0")
	silent("commit", "commit", "-10")
	p.want("progress 8 9", "0")
	if now := at(t, memory, 128); now != 8 {
		t.Errorf("it told iteration %d", now)
	}
	p.want("init", "0")
	f.says("kept stop") // and then comes the next one
	order(t, memory, 1)
	p.want("should", "1")
	asks("begin 4096", "begin 4096", "folder /b", "/b 0")
	asks("commit", "commit", "kept", "0")

	silent("begin 4096", "begin 4096", " -10")
	f.says("folder /c") // of which it is not any more when the program asks
	asks("begin 4096", "begin 4096", "no unasked", " -1")
	silent("begin 4096", "begin 4096", " -10")
	f.says("no unasked")
	asks("begin 4096", "begin 4096", "no busy", " -2")
	silent("want", "want", "-10")
	f.says("asked")
	asks("begin 4096", "begin 4096", "folder /d", "/d 0")
	silent("abort", "abort", "-10")
	f.says("aborted")
	asks("begin 10", "begin 10", "no room", " -6")

	silent("commit", "commit", "-10")
	f.conn.Close() // the program sees it
	p.want("should", "1")
	p.want("begin 4096", " -7")
	p.want("should", "0")
	p.want("connected", "0")
}
