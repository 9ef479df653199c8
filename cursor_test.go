package contoken

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func TestCursorVectors(t *testing.T) {
	for _, v := range readVectors[cursorVector](t, "cursor.json") {
		t.Run(v.Name, func(t *testing.T) {
			issuer := v.issuer(t)
			payload, err := issuer.Verify(v.Scope.scope(t), v.Cursor)
			if v.Error != "" {
				if want := vectorErrors[v.Error]; want == nil || !errors.Is(err, want) {
					t.Fatalf("error %v, want %v (%q)", err, want, v.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if payload.Scope != v.Scope.scope(t) || payload.PageIndex != v.Page ||
				!payload.IssuedAt.Equal(time.Unix(v.IssuedAt, 0)) || !bytes.Equal(payload.OpaqueState, unhex(t, v.State)) {
				t.Errorf("payload %+v", payload)
			}
			if !v.Issue {
				return
			}
			cursor, err := issuer.Issue(v.Scope.scope(t), v.Page, unhex(t, v.State))
			if err != nil {
				t.Fatal(err)
			}
			if cursor != v.Cursor {
				t.Errorf("issued %s\nwant   %s", cursor, v.Cursor)
			}
		})
	}
}
