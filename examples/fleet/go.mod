module github.com/contoken/contoken/examples/fleet

go 1.26.0

require github.com/contoken/contoken v0.0.0

require (
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/contoken/contoken => ../../
