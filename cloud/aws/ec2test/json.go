package ec2test

import (
	"encoding/json"
	"net/http"
)

// serveJSON answers SSM's GetParameter, and tells any other that it is not allowed.
func (c *Cloud) serveJSON(w http.ResponseWriter, r *http.Request, target string, text []byte) {
	action := "GetParameter"
	if target != "AmazonSSM.GetParameter" {
		action = target
	}
	call := c.begin(action, nil)
	c.sleep(c.latency(action))
	status, answer := c.parameter(action, r.Header.Get("X-Amz-Date"), text)
	code, _ := answer["__type"].(string)
	c.end(call, code)
	c.stamp(w)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the caller may have gone
}

func (c *Cloud) parameter(action, date string, text []byte) (int, map[string]any) {
	refuse := func(code, message string) (int, map[string]any) {
		return http.StatusBadRequest, map[string]any{"__type": code, "message": message}
	}
	if f := c.admit(action, nil, date); f != nil {
		return refuse(f.code, f.message)
	}
	if fault, met := c.nextFault(action); met {
		return refuse(fault.Code, fault.Message)
	}
	if action != "GetParameter" {
		return refuse("AccessDeniedException", "not authorized to perform: "+action)
	}
	var in struct{ Name string }
	if err := json.Unmarshal(text, &in); err != nil {
		return refuse("SerializationException", err.Error())
	}
	value, ok := c.o.Parameters[in.Name]
	if !ok {
		return refuse("ParameterNotFound", "")
	}
	return http.StatusOK, map[string]any{"Parameter": map[string]any{
		"Name": in.Name, "Type": "String", "Value": value, "Version": 1, "DataType": "text",
	}}
}
