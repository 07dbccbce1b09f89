package vultrtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reply is an answer: JSON of body, unless it is nil.
type reply struct {
	status int
	body   any
}

// no is a refusal, as Vultr words it.
func no(status int, format string, args ...any) reply {
	return reply{status, map[string]any{"error": fmt.Sprintf(format, args...), "status": status}}
}

type object = map[string]any

// maxBody is more than any request has.
const maxBody = 1 << 20

// ServeHTTP answers one request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the caller has gone
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	op := r.Method + " other"
	if len(parts) > 1 && parts[0] == "v2" {
		op = r.Method + " " + parts[1]
		parts = parts[2:]
	}
	time.Sleep(c.options.Latency)
	answer, fault, cut := c.answer(op, parts, r, body)
	time.Sleep(fault.Late)
	if fault.Hang {
		<-r.Context().Done()
		cut = true
	}
	c.note(Call{Op: op, Path: r.URL.Path, Status: map[bool]int{false: answer.status}[cut], At: time.Now()})
	if cut {
		panic(http.ErrAbortHandler) // cuts the connection
	}
	if fault.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(fault.RetryAfter/time.Second)))
	}
	if answer.body == nil {
		w.WriteHeader(answer.status)
		return
	}
	text, ok := answer.body.(string)
	if !ok {
		raw, err := json.Marshal(answer.body)
		if err != nil {
			panic(err) // all that is answered can be written
		}
		text = string(raw)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, text) // the caller may have gone
}

func (c *Cloud) note(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

// answer gives a request its effect. cut: its answer is lost.
func (c *Cloud) answer(op string, parts []string, r *http.Request, body []byte) (answer reply, fault Fault, cut bool) {
	if c.tooMany() {
		return no(http.StatusTooManyRequests, "Rate limit exceeded"), Fault{}, false
	}
	if r.Header.Get("Authorization") != "Bearer "+Key {
		return no(http.StatusUnauthorized, "Invalid API token."), Fault{}, false
	}
	fault, met := c.nextFault(op)
	switch {
	case met && fault.Hang:
		return reply{}, fault, false
	case met && fault.Late > 0:
		return c.do(op, parts, r, body), fault, false
	case met && fault.Lost:
		return c.do(op, parts, r, body), fault, true
	case met && fault.Twice:
		c.do(op, parts, r, body)
		return c.do(op, parts, r, body), fault, true
	case met && fault.Body != "":
		return reply{http.StatusOK, fault.Body}, fault, false
	case met:
		if fault.Done {
			c.do(op, parts, r, body)
		}
		status, message := fault.Status, fault.Message
		if status == 0 {
			status = http.StatusInternalServerError
		}
		if message == "" {
			message = "injected"
		}
		return no(status, "%s", message), fault, false
	}
	return c.do(op, parts, r, body), fault, false
}

func (c *Cloud) do(op string, parts []string, r *http.Request, body []byte) reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := ""
	if len(parts) > 0 {
		id = parts[0]
	}
	switch op {
	case "GET instances", "GET bare-metals":
		metal := op == "GET bare-metals"
		if id != "" {
			return c.show(id, metal)
		}
		return c.list(r, metal)
	case "POST instances", "POST bare-metals":
		if len(parts) == 2 && parts[1] == "halt" && op == "POST instances" {
			return c.halt(id)
		}
		if id != "" {
			return no(http.StatusNotFound, "Invalid resource")
		}
		return c.create(body, op == "POST bare-metals")
	case "PATCH instances", "PATCH bare-metals":
		return c.change(id, body, op == "PATCH bare-metals")
	case "DELETE instances", "DELETE bare-metals":
		return c.destroy(id, op == "DELETE bare-metals")
	case "GET plans":
		return c.page(r, "plans", computePlans())
	case "GET plans-metal":
		return c.page(r, "plans_metal", metalPlans())
	case "GET regions":
		if len(parts) == 2 && parts[1] == "availability" {
			return c.availability(id, r.URL.Query().Get("type"))
		}
		return c.page(r, "regions", []any{object{"id": Region, "city": "London", "country": "GB", "continent": "Europe", "options": []string{}}})
	case "GET os":
		return c.page(r, "os", systems())
	case "GET account":
		return reply{http.StatusOK, object{"account": object{"name": "HPC", "email": Email, "acls": c.options.ACLs, "balance": -10.5, "pending_charges": 1.25}}}
	case "GET snapshots":
		return c.showSnapshots(r, id)
	case "POST snapshots":
		return c.addSnapshot(body)
	case "DELETE snapshots":
		return c.deleteSnapshot(id)
	case "GET vpcs":
		return one("vpc", id, object{"id": VPC, "region": Region, "description": "burst", "v4_subnet": "192.168.0.0", "v4_subnet_mask": 16})
	case "GET firewalls":
		return one("firewall_group", id, object{"id": Firewall, "description": "nodes", "instance_count": 0, "rule_count": 3, "max_rule_count": 50})
	case "GET startup-scripts":
		return one("startup_script", id, object{"id": Script, "name": "first boot", "type": "boot", "script": "IyEvYmluL3NoCg=="})
	case "GET ssh-keys":
		return c.page(r, "ssh_keys", anys(c.keys))
	case "POST ssh-keys":
		return c.addKey(body)
	}
	return no(http.StatusNotFound, "Invalid resource")
}

// one answers for the one thing of its kind that the account has.
func one(name, id string, has object) reply {
	if id != has["id"] {
		return no(http.StatusNotFound, "Invalid %s", name)
	}
	return reply{http.StatusOK, object{name: has}}
}

// page answers one page of a list. The cursor is opaque, as Vultr's is.
func (c *Cloud) page(r *http.Request, name string, all []any) reply {
	size, from := c.options.PageSize, 0
	if n, err := strconv.Atoi(r.URL.Query().Get("per_page")); err == nil && n > 0 {
		size = min(size, n)
	}
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		text, err := base64.StdEncoding.DecodeString(cursor)
		n, nerr := strconv.Atoi(strings.TrimPrefix(string(text), "next__"))
		if err != nil || nerr != nil || n < 0 {
			return no(http.StatusBadRequest, "Invalid cursor.")
		}
		from = min(n, len(all))
	}
	to, total := min(from+size, len(all)), len(all)
	next := ""
	if to < len(all) {
		next = base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("next__%d", to)))
	}
	part := slices.DeleteFunc(append([]any{}, all[from:to]...), func(one any) bool {
		shown, machine := one.(object)
		return machine && c.hidden != "" && shown["id"] == c.hidden
	})
	return reply{http.StatusOK, object{name: part, "meta": object{"total": total, "links": object{"next": next, "prev": ""}}}}
}

func anys[T any](all []T) []any {
	out := make([]any, len(all))
	for i, one := range all {
		out[i] = one
	}
	return out
}
