package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.yaml.in/yaml/v3"
)

// described are the labels of all metrics of ours, by name.
func described(t *testing.T) map[string][]string {
	t.Helper()
	c := newCounted(t)
	ch := make(chan *prometheus.Desc, 1000)
	for _, of := range []prometheus.Collector{&collector{}, newBootStages(), c.orders, c.launches, c.launched, c.boots, c.bootSeconds, c.notices, c.lead,
		c.checkpoints, c.requeues, c.lost, c.actions, c.events, c.spent, c.rate, c.unpriced, c.capped, c.capSpent, c.capHeld} {
		of.Describe(ch)
	}
	close(ch)
	all := map[string][]string{}
	for d := range ch {
		m := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`).FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s cannot be read", d)
		}
		all[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
	}
	if len(all) < 30 {
		t.Fatalf("only %d metrics: %v", len(all), all)
	}
	return all
}

// TestLabelsAreFew: none names what there is more and more of.
func TestLabelsAreFew(t *testing.T) {
	allowed := strings.Fields("pool provider market type zone kind source outcome result operation moment phase stage cause action state version")
	for name, labels := range described(t) {
		for _, l := range labels {
			if !slices.Contains(allowed, l) {
				t.Errorf("%s has the label %s, which is not one of %v", name, l, allowed)
			}
		}
	}
}

// TestMetricsFollowConventions: names, units, types and help, as Prometheus
// wants them, of all that a burstd shows.
func TestMetricsFollowConventions(t *testing.T) {
	r := newSite(t).start()
	r.until("metrics", func() bool { return r.scrape() != "" })
	text := r.scrape()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "burst_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for name := range described(t) {
		if perCloud := strings.HasPrefix(name, "burst_cloud_"); !perCloud && !slices.Contains(late, name) && !strings.Contains(text, "# HELP "+name+" ") {
			t.Errorf("%s is described and not shown", name)
		}
	}
}

// late are shown when there is something to show.
var late = []string{"burst_boot_stage_seconds", "burst_reconcile_actions_total", "burst_node_requests_total",
	"burst_budget_cap_usd", "burst_budget_spent_usd", "burst_budget_committed_usd"}

// contributed reads a file of contrib/grafana.
func contributed(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../contrib/grafana", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkQuery holds an expression to the metrics and labels that there are. It
// reads names, not PromQL: what is in braces, in by () and in quotes.
func checkQuery(t *testing.T, where, expr string, known map[string][]string) {
	t.Helper()
	named := 0
	labels := map[string]bool{"job": true, "instance": true, "le": false}
	for _, m := range regexp.MustCompile(`\b((?:burst|process|go)_\w+|up)\b`).FindAllStringSubmatch(expr, -1) {
		name := m[1]
		named++
		if base, ok := strings.CutSuffix(name, "_bucket"); ok {
			name, labels["le"] = base, true
		}
		of, ok := known[name]
		if !ok && strings.HasPrefix(name, "burst_") {
			t.Errorf("%s: %s is no metric of burstd", where, name)
		}
		for _, l := range of {
			labels[l] = true
		}
	}
	if named == 0 {
		t.Errorf("%s: %q asks for no metric", where, expr)
	}
	used := regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`).FindAllStringSubmatch(expr, -1)
	for _, m := range regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			used = append(used, []string{"", strings.TrimSpace(l)})
		}
	}
	for _, m := range used {
		if !labels[m[1]] {
			t.Errorf("%s: no metric of %q has the label %s", where, expr, m[1])
		}
	}
	if n := strings.Count(expr, "("); n != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		t.Errorf("%s: %q is not balanced", where, expr)
	}
}

// checkValues holds the values that an expression compares labels with to
// those that have a series from the start: an alert on a misspelt one never fires.
func checkValues(t *testing.T, where, expr string, known map[string]map[string]bool) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\b(burst_\w+?)(?:_bucket)?\{([^}]*)\}`).FindAllStringSubmatch(expr, -1) {
		for _, l := range regexp.MustCompile(`(\w+)(?:=~|=)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			values := known[m[1]+" "+l[1]]
			for v := range strings.SplitSeq(l[2], "|") {
				if values != nil && !values[v] {
					t.Errorf("%s: %s never has %s=%q, but %v", where, m[1], l[1], v, slices.Sorted(maps.Keys(values)))
				}
			}
		}
	}
}

// shown are the values that labels have before anything happens, by metric and label.
func shown(t *testing.T) map[string]map[string]bool {
	t.Helper()
	families, err := newCounted(t).reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				key := f.GetName() + " " + l.GetName()
				if all[key] == nil {
					all[key] = map[string]bool{}
				}
				all[key][l.GetValue()] = true
			}
		}
	}
	return all
}

func TestDashboard(t *testing.T) {
	var d struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []struct {
			ID          int
			Title, Type string
			Description string
			Datasource  struct{ Type, UID string }
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(contributed(t, "burst-dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 30 || len(d.Templating.List) < 1 || d.Templating.List[0].Type != "datasource" {
		t.Errorf("%+v is no dashboard with a variable for its data source", d)
	}
	known, values := described(t), shown(t)
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Description == "" || p.Datasource.UID != "${"+d.Templating.List[0].Name+"}" {
			t.Errorf("panel %q: its id is taken, it is not described, or its data source %q is fixed", p.Title, p.Datasource.UID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X+g.W > 24 || g.Y+g.H > 24 {
			t.Errorf("panel %q is not on one screen of 24 columns and 24 rows: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %q and %q overlap", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			where := fmt.Sprintf("panel %q, %s", p.Title, target.RefID)
			checkQuery(t, where, target.Expr, known)
			checkValues(t, where, strings.ReplaceAll(target.Expr, `job=~"$job"`, ""), values)
		}
	}
}

func TestAlerts(t *testing.T) {
	type rule struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
	var f struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	text := contributed(t, "burst-alerts.yaml")
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	known, values := described(t), shown(t)
	names := map[string]bool{}
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if names[r.Alert] || r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" {
				t.Errorf("%s: twice, or of severity %q", r.Alert, r.Labels["severity"])
			}
			names[r.Alert] = true
			for _, a := range []string{"summary", "description", "action"} {
				if r.Annotations[a] == "" {
					t.Errorf("%s does not say its %s", r.Alert, a)
				}
			}
			if !regexp.MustCompile(`^(\d+[smh])?$`).MatchString(r.For) {
				t.Errorf("%s: for %q", r.Alert, r.For)
			}
			checkQuery(t, r.Alert, r.Expr, known)
			checkValues(t, r.Alert, r.Expr, values)
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(fmt.Sprint(r.Annotations), -1) {
				if !strings.Contains(r.Expr, "by (") {
					continue
				}
				if !regexp.MustCompile(`by \([^)]*\b` + m[1] + `\b`).MatchString(r.Expr) {
					t.Errorf("%s names the label %s, which its expression drops", r.Alert, m[1])
				}
			}
		}
	}
	if len(names) < 10 {
		t.Errorf("only %d alerts", len(names))
	}
}
