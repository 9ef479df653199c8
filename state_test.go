package contoken

import (
	"errors"
	"testing"
)

func TestStateVectors(t *testing.T) {
	for _, v := range readVectors[stateVector](t, "state.json") {
		t.Run(v.Name, func(t *testing.T) {
			codec := v.codec(t)
			state, err := codec.Decode(v.Scope.scope(t), v.Wire)
			if v.Error != "" {
				if want := vectorErrors[v.Error]; want == nil || !errors.Is(err, want) {
					t.Fatalf("error %v, want %v (%q)", err, want, v.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if state != v.State {
				t.Errorf("state %q, want %q", state, v.State)
			}
			if !v.Encode {
				return
			}
			wire, err := codec.Encode(v.Scope.scope(t), v.State)
			if err != nil {
				t.Fatal(err)
			}
			if wire != v.Wire {
				t.Errorf("encoded %s\nwant    %s", wire, v.Wire)
			}
		})
	}
}
