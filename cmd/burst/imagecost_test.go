package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// TestTellCost: what the instance cost is said, and whether burst cost has it, whatever burstd answers.
func TestTellCost(t *testing.T) {
	t.Parallel()
	b := new(apitest.Backend)
	cfg := twoSources(t, vultrFake(t), b)
	pool := must(sourceOf(cfg.Pools[0], "lon"))
	ended := time.Now()
	gone := imaging.Result{Instance: "i-1", Token: cloud.BuilderToken(ended), Gone: true, Launched: ended.Add(-time.Hour), Ended: ended}
	lives, none := gone, imaging.Result{Gone: true}
	lives.Gone = false
	nowhere := *cfg
	nowhere.Endpoint.Socket += "-none"
	for _, tt := range []struct {
		name   string
		result imaging.Result
		away   bool
		fail   error
		want   string // "": nothing is said
		booked bool
	}{
		{"gone", gone, false, nil, "the instance cost an unknown amount, which burst cost has\n", true},
		{"left to burstd", lives, false, nil, "which burst cost has once burstd has seen its end\n", false},
		{"refused", gone, false, &api.Error{Status: http.StatusBadRequest, Message: "no such pool"}, "which burst cost does not have: burstd: no such pool (400)\n", false},
		{"its disk is full", gone, false, errors.New("disk full"), "which burst cost does not have: ", false},
		{"burstd is away", gone, true, nil, "which burst cost does not have, unless only burstd's answer was lost, or the provider still lists it when burstd is back: ", false},
		{"none was launched", none, false, nil, "", false},
	} {
		c, before := cfg, len(b.Builders())
		if tt.away {
			c = &nowhere
		}
		b.Fail(tt.fail)
		var said strings.Builder
		usd := tellCost(t.Context(), &said, built{c, pool, struct{ cloud.Provider }{}, tt.result})
		if usd != nil || (said.Len() > 0) != (tt.want != "") || !strings.Contains(said.String(), tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, said.String(), tt.want)
		}
		if booked := len(b.Builders()) > before; booked != tt.booked {
			t.Errorf("%s: booked: %v", tt.name, booked)
		}
	}
}
