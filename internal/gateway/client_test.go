package gateway

import (
	"reflect"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
)

// Every operation has a method of its name.
func TestClientHasEveryOperation(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
	c := reflect.TypeFor[*client.Gateway]()
	for _, route := range r.api.table() {
		found := false
		for m := range c.Methods() {
			found = found || strings.EqualFold(m.Name, route.ID)
		}
		if !found {
			t.Errorf("the client lacks %s", route.ID)
		}
	}
}
