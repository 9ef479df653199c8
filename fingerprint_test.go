package contoken

import (
	"encoding/hex"
	"errors"
	"testing"
)

func TestFingerprintVectors(t *testing.T) {
	for _, v := range readVectors[fingerprintVector](t, "fingerprint.json") {
		t.Run(v.Name, func(t *testing.T) {
			canonical, err := canonicalJSON(v.JSON, nil)
			if v.Error {
				if !errors.Is(err, ErrInput) {
					t.Fatalf("%q: error %v, want ErrInput", v.JSON, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(canonical) != v.Canonical {
				t.Errorf("canonical %s\nwant      %s", canonical, v.Canonical)
			}
			fingerprint, err := FingerprintArgs(v.JSON)
			if err != nil || hex.EncodeToString(fingerprint[:]) != v.SHA256 {
				t.Errorf("fingerprint %x, error %v; want %s", fingerprint, err, v.SHA256)
			}
		})
	}
}
