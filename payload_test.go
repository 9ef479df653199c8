package contoken

import (
	"strings"
	"testing"
)

func TestReadPayloadTakesOneSpelling(t *testing.T) {
	tag := strings.Repeat("0123456789abcdef", 4)
	good := `{"s":"a\n","exp":1790946440,"b":"` + tag + `"}`
	for name, c := range map[string]struct{ from, to string }{
		"the good one":                {"", ""},
		"expiry 0":                    {"1790946440", "0"},
		"expiry 2^53":                 {"1790946440", "9007199254740992"},
		"no expiry":                   {"1790946440", ""},
		"expiry past 2^53":            {"1790946440", "9007199254740993"},
		"expiry past 2^64":            {"1790946440", "18446744073709551617"},
		"a leading zero":              {"1790946440", "01"},
		"a sign":                      {"1790946440", "+1"},
		"a minus":                     {"1790946440", "-1"},
		"a fraction":                  {"1790946440", "1.0"},
		"an exponent":                 {"1790946440", "1e9"},
		"quotes around the expiry":    {"1790946440", `"1"`},
		"a space":                     {`,"exp"`, `, "exp"`},
		"another first name":          {`"s"`, `"S"`},
		"another second name":         {`"exp"`, `"Exp"`},
		"another third name":          {`"b"`, `"B"`},
		"a member more":               {`"}`, `","x":1}`},
		"text after":                  {`"}`, `"} `},
		"no brace":                    {`"}`, `"`},
		"no second name":              {`,"exp":`, ""},
		"no third name":               {`,"b":"`, ""},
		"no first name":               {`{"s":`, ""},
		"no end":                      {`"}`, ""},
		"nothing but the state":       {`,"exp":1790946440,"b":"` + tag + `"}`, ""},
		"a short tag":                 {"0123", "123"},
		"a long tag":                  {"0123", "00123"},
		"upper case in the tag":       {"abcdef", "abcdeF"},
		"no hex in the tag":           {"abcdef", "abcdeg"},
		"punctuation in the tag":      {"abcdef", "abcde/"},
		"a state without quotes":      {`"a\n"`, "1"},
		"a null state":                {`"a\n"`, "null"},
		"a state without end":         {`"a\n"`, `"a\n`},
		"a longer escape":             {`\n`, `\u000a`},
		"an upper-case escape":        {`\n`, `\u001F`},
		"a needless escape":           {`\n`, `\u0061`},
		"an escaped solidus":          {`\n`, `\/`},
		"an escape past ASCII":        {`\n`, `\u00e9`},
		"a surrogate pair":            {`\n`, `\ud83d\ude00`},
		"a lone surrogate":            {`\n`, `\ud83d`},
		"an unknown escape":           {`\n`, `\x`},
		"a control character":         {`\n`, "\n"},
		"a control character, n":      {`\n`, "\x01n"},
		"invalid UTF-8":               {`\n`, "\xff"},
		"the shorter escape of U+1F":  {`\n`, `\u1f`},
		"a quote in the state":        {`a\n`, `a"\n`},
		"a backslash before the end":  {`a\n`, `a\`},
		"white space before the text": {`{"s"`, ` {"s"`},
	} {
		want := strings.HasPrefix(name, "the good") || name == "expiry 0" || name == "expiry 2^53"
		buf := borrowBuffer()
		if p, ok := readPayload(buf, []byte(strings.Replace(good, c.from, c.to, 1))); ok != want {
			t.Errorf("%s: read %v, state %q; want %v", name, ok, p.state, want)
		}
		buf.giveBack()
	}
}
