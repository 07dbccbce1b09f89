package sbatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name, script string
		want         []string // name=value@line
		parts        int
		err          string
	}{
		{name: "empty", parts: 1},
		{name: "usual", script: "#!/bin/bash\n#SBATCH --partition=cloud --nodes=4\n#SBATCH --requeue\n\n# text\n#SBATCH -J x -t10 -p night\nsrun x\n#SBATCH --no-requeue\n",
			want: []string{"partition=cloud@2", "nodes=4@2", "requeue=@3", "job-name=x@6", "time=10@6", "partition=night@6"}, parts: 1},
		{name: "quotes and comments", script: "#SBATCH --comment=\"burst: signal=USR1 grace='5s'\" # text\n#SBATCH -J 'a b' -N2#3\n#SBATCH -J a\\ b\\#c\n#SBATCH -J \"a\\\"b\"\n",
			want: []string{"comment=burst: signal=USR1 grace='5s'@1", "job-name=a b@2", "nodes=2@2", "job-name=a b#c@3", "job-name=a\"b@4"}, parts: 1},
		{name: "arguments apart", script: "#SBATCH --open-mode append --array 1-10%2\n#SBATCH -a 3",
			want: []string{"open-mode=append@1", "array=1-10%2@1", "array=3@2"}, parts: 1},
		{name: "an argument on the next line", script: "#SBATCH --open-mode\n#SBATCH append", want: []string{"open-mode=append@1"}, parts: 1},
		{name: "letters", script: "#SBATCH -HQN2 -kHp x", want: []string{"hold=@1", "quiet=@1", "nodes=2@1", "no-kill=Hp@1"}, parts: 1},
		{name: "abbreviated", script: "#SBATCH --part=x --open=append --no-req --no", want: []string{"partition=x@1", "open-mode=append@1", "no-requeue=@1", "no=@1"}, parts: 1},
		{name: "a plugin's", script: "#SBATCH --container-image ubuntu --private --requeue", want: []string{"container-image=ubuntu@1", "private=@1", "requeue=@1"}, parts: 1},
		{name: "not at the line's begin", script: " #SBATCH --requeue\n##SBATCH --requeue\n# SBATCH --requeue\n#SBATCH--requeue", want: []string{"requeue=@4"}, parts: 1},
		{name: "parts", script: "#SBATCH -N1 --requeue\n#SBATCH hetjob\n#SBATCH -N4\n#SBATCH PackJob -N3\n", want: []string{"nodes=1@1", "requeue=@1"}, parts: 3},
		{name: "a job named after it", script: "#SBATCH -J hetjob\n#SBATCH hetjobs", want: []string{"job-name=hetjob@1"}, parts: 1},
		{name: "open quote", script: "\n#SBATCH -J 'x", err: "line 2: sbatch refuses it: the quote ' is not closed"},
		{name: "colon", script: "#SBATCH -N1 : -N2", err: "line 1: sbatch refuses it: a colon"},
		{name: "blank lines and CRLF", script: "#SBATCH -N1\r\n\t \r\n#SBATCH -N2\r\n", want: []string{"nodes=1@1", "nodes=2@3"}, parts: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := Read(tt.script)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			var got []string
			for _, o := range h.Options {
				got = append(got, fmt.Sprintf("%s=%s@%d", o.Name, o.Value, o.Line))
			}
			if err != nil || !slices.Equal(got, tt.want) || h.Parts != tt.parts {
				t.Errorf("got  %q, %d parts, %v\nwant %q, %d", got, h.Parts, err, tt.want, tt.parts)
			}
		})
	}
}

func TestLast(t *testing.T) {
	h, err := Read("#SBATCH --requeue\n#SBATCH --no-requeue -N1\n#SBATCH --requeue -N2")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := h.Last("requeue", "no-requeue"); !ok || o.Name != "requeue" || o.Line != 3 {
		t.Errorf("got %+v, %t", o, ok)
	}
	if o, ok := h.Last("array"); ok {
		t.Errorf("got %+v", o)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("#!/bin/bash\n#SBATCH --partition=cloud -N 4 --comment=\"a 'b'\" # c\nsrun x\n")
	f.Add("#SBATCH -HQ\\\n#SBATCH hetjob\n#SBATCH :")
	f.Add("#SBATCH --=x - -- ---")
	f.Fuzz(func(t *testing.T, script string) {
		h, err := Read(script)
		if err != nil {
			if len(h.Options) > 0 || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%+v, %v", h, err)
			}
			return
		}
		lines := strings.Count(script, "\n") + 1
		for _, o := range h.Options {
			if o.Line < 1 || o.Line > lines {
				t.Errorf("%+v of %d lines", o, lines)
			}
		}
	})
}
