package contoken

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCanonicalJSONNeitherRoundsNorMerges(t *testing.T) {
	fingerprints := map[Fingerprint]string{}
	for _, text := range []string{
		`{"id":9007199254740992}`, `{"id":9007199254740993}`, `{"id":9007199254740994}`, `{"id":-9007199254740993}`,
		`{"id":18446744073709551615}`, `{"id":18446744073709551616}`, `{"id":"9007199254740993"}`,
		`{"Id":9007199254740993}`, `{"id":null}`, `{"id":[]}`, `{"id":{}}`, `{"id":""}`, `{"id":"\u0000"}`, `{"id":false}`,
		`{"id":"ﬀ"}`, `{"id":"ff"}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `[1,2]`, `[2,1]`, `{"id":"\ufffd"}`,
	} {
		fingerprint, err := FingerprintArgs([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if other, ok := fingerprints[fingerprint]; ok {
			t.Errorf("%s and %s share a fingerprint", text, other)
		}
		fingerprints[fingerprint] = text
	}
	for _, text := range []string{`{"id":"\ud800"}`, "{\"id\":\"\xff\"}", `{"id":1,"id":1}`, `{"id":1,"i\u0064":2}`} {
		if _, err := FingerprintArgs([]byte(text)); !errors.Is(err, ErrInput) {
			t.Errorf("%s: error %v, want ErrInput", text, err)
		}
	}
}

func TestCanonicalJSONLeavesArgumentsAlone(t *testing.T) {
	args := []byte(`{"b":"\u0041","a":[1.0,{"d":1,"c":2}]}`)
	before := bytes.Clone(args)
	canonical, err := canonicalJSON(args, []string{"x"})
	if err != nil || string(canonical) != `{"a":[1,{"c":2,"d":1}],"b":"A"}` {
		t.Errorf("canonical %s, error %v", canonical, err)
	}
	if !bytes.Equal(args, before) {
		t.Errorf("the caller's text became %s", args)
	}
}

func TestExceptLeavesOutTopLevelMembers(t *testing.T) {
	for _, c := range []struct{ text, except, want string }{
		{`{"path":"/","__cursor":"abc"}`, "__cursor", `{"path":"/"}`},
		{`{"__cursor":"abc","path":"/"}`, "__cursor", `{"path":"/"}`},
		{`{"a":1,"b":2,"c":3}`, "b", `{"a":1,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, "c a b", `{}`},
		{`{"a":{"b":1},"b":[{"b":2}]}`, "b", `{"a":{"b":1}}`},
		{`{"b":{"z":1,"y":[{"d":1,"c":2}]},"a":{"d":1,"c":2}}`, "b", `{"a":{"c":2,"d":1}}`},
		{`{"\u0062":1}`, "b", `{}`},
		{`{"B":1}`, "b", `{"B":1}`},
		{`[{"b":1}]`, "b", `[{"b":1}]`},
		{`"b"`, "b", `"b"`},
		{``, "b", `{}`},
		{`null`, "b", `{}`},
		{`{}`, "b", `{}`},
	} {
		canonical, err := canonicalJSON([]byte(c.text), strings.Fields(c.except))
		if err != nil || string(canonical) != c.want {
			t.Errorf("%s without %s: %s, error %v; want %s", c.text, c.except, canonical, err, c.want)
		}
	}
	for _, text := range []string{`{"b":1,"b":2}`, `{"b":01}`, `{"b":{"x":1,"x":1}}`, "{\"b\":\"\xff\"}", `{"b":"\ud800"}`, `{"b":1e999}`} {
		if _, err := FingerprintArgs([]byte(text), "b"); !errors.Is(err, ErrInput) {
			t.Errorf("%s: error %v, want ErrInput: what is left out is checked like the rest", text, err)
		}
	}
}

// A text of random shape and its members in another order have one canonical form, whatever nests in what.
func TestCanonicalJSONDoesNotDependOnMemberOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		value := randomJSON(random, 4)
		a, b := new(strings.Builder), new(strings.Builder)
		writeShuffled(random, a, value)
		writeShuffled(random, b, value)
		sorted, _ := json.Marshal(value) // encoding/json sorts names, and here they are plain
		for _, text := range []string{a.String(), b.String()} {
			if canonical, err := canonicalJSON([]byte(text), nil); err != nil || string(canonical) != string(sorted) {
				t.Fatalf("%s\ngives %s, error %v\nwant  %s", text, canonical, err, sorted)
			}
		}
	}
}

func randomJSON(random *rand.Rand, depth int) any {
	switch kind := random.IntN(4); {
	case kind == 0 && depth > 0:
		object := map[string]any{}
		for range random.IntN(5) {
			object[fmt.Sprintf("k%d", random.IntN(30))] = randomJSON(random, depth-1)
		}
		return object
	case kind == 1 && depth > 0:
		array := []any{}
		for range random.IntN(4) {
			array = append(array, randomJSON(random, depth-1))
		}
		return array
	default:
		return random.IntN(100)
	}
}

// writeShuffled writes value with the members of every object in random order, and white space.
func writeShuffled(random *rand.Rand, w *strings.Builder, value any) {
	switch value := value.(type) {
	case map[string]any:
		var members []string
		for name, inner := range value { // in the random order of maps
			member := new(strings.Builder)
			fmt.Fprintf(member, "%q : ", name)
			writeShuffled(random, member, inner)
			members = append(members, member.String())
		}
		random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		fmt.Fprintf(w, "{ %s\n}", strings.Join(members, ",\t"))
	case []any:
		var elements []string
		for _, inner := range value {
			element := new(strings.Builder)
			writeShuffled(random, element, inner)
			elements = append(elements, element.String())
		}
		fmt.Fprintf(w, "[\r%s ]", strings.Join(elements, " , "))
	default:
		fmt.Fprint(w, value)
	}
}

func TestCanonicalJSONBoundsDepth(t *testing.T) {
	for _, c := range []struct {
		open, close string
		depth       int
		want        error
	}{
		{"[", "]", 1000, nil},
		{"[", "]", 1001, ErrInput},
		{`{"b":0,"a":`, "}", 1000, nil},
		{`{"b":0,"a":`, "}", 1001, ErrInput},
		{"[", "]", 1_000_000, ErrInput},
	} {
		text := strings.Repeat(c.open, c.depth) + "0" + strings.Repeat(c.close, c.depth)
		if _, err := FingerprintArgs([]byte(text)); !errors.Is(err, c.want) {
			t.Errorf("%d times %s: error %v, want %v", c.depth, c.open, err, c.want)
		}
	}
}

// However deep a text nests, each byte is moved a fixed number of times. Were each object sorted by copying what it
// holds, this text would be copied a thousand times.
func TestCanonicalJSONMovesEachByteTwice(t *testing.T) {
	const depth, filler = 1000, 1 << 20
	text := []byte(strings.Repeat(`{"b":0,"a":`, depth) + `"` + strings.Repeat("x", filler) + `"` + strings.Repeat("}", depth))
	var r jsonReader
	r.src = text
	if err := r.document(); err != nil {
		t.Fatal(err)
	}
	if len(r.objects) != depth || len(r.sorted) != 2*depth {
		t.Errorf("%d objects with %d members to sort, want %d and %d", len(r.objects), len(r.sorted), depth, 2*depth)
	}
	canonical := r.appendSorted(make([]byte, 0, len(r.text)), jsonSpan{0, len(r.text), 0})
	if cap(canonical) != len(r.text) || len(canonical) != len(text) {
		t.Errorf("canonical text of %d bytes, capacity %d; want %d, written once", len(canonical), cap(canonical), len(text))
	}
}

func TestCanonicalJSONKeepsNoRecordOfWhatIsInOrder(t *testing.T) {
	r := jsonReader{src: []byte(`[{},{"a":{"b":[{}],"c":{}},"d":1},[{},{}]]`)}
	if err := r.document(); err != nil || len(r.objects) != 0 {
		t.Errorf("%d objects, error %v; memory should follow what has to be sorted", len(r.objects), err)
	}
}

func TestFingerprintsAreIndependentOfEarlierOnes(t *testing.T) {
	want, err := FingerprintArgs([]byte(`{"b":1,"a":"\n"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"z":{"y":[1,2,{"d":1,"c":"\t"}]},"a":`, `{"a":1,"a":2}`, `[{"b":1,"a":2}]`, strings.Repeat("[", 2000)} {
		FingerprintArgs([]byte(text), "a") // leaves its traces in the pooled reader
		if got, err := FingerprintArgs([]byte(`{"b":1,"a":"\n"}`)); err != nil || got != want {
			t.Fatalf("after %q: fingerprint %x, error %v; want %x", text, got, err, want)
		}
	}
}
