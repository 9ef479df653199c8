package main

import "encoding/json"

// Schemas that scenarios look for in the list of tools, or send an answer for.
var (
	usernameSchema = json.RawMessage(`{
		"type": "object",
		"properties": {"username": {"type": "string"}},
		"required": ["username"]
	}`)

	// SEP-1034: a default for every primitive type.
	defaultsSchema = json.RawMessage(`{
		"type": "object",
		"properties": {
			"name": {"type": "string", "default": "John Doe"},
			"age": {"type": "integer", "default": 30},
			"score": {"type": "number", "default": 95.5},
			"status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
			"verified": {"type": "boolean", "default": true}
		}
	}`)

	// SEP-1330: every form of enumeration.
	enumsSchema = json.RawMessage(`{
		"type": "object",
		"properties": {
			"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
			"titledSingle": {"type": "string", "oneOf": [
				{"const": "value1", "title": "First Option"},
				{"const": "value2", "title": "Second Option"},
				{"const": "value3", "title": "Third Option"}
			]},
			"legacyEnum": {
				"type": "string",
				"enum": ["opt1", "opt2", "opt3"],
				"enumNames": ["Option One", "Option Two", "Option Three"]
			},
			"untitledMulti": {
				"type": "array", "minItems": 1, "maxItems": 3,
				"items": {"type": "string", "enum": ["option1", "option2", "option3"]}
			},
			"titledMulti": {
				"type": "array", "minItems": 1, "maxItems": 3,
				"items": {"anyOf": [
					{"const": "value1", "title": "First Choice"},
					{"const": "value2", "title": "Second Choice"},
					{"const": "value3", "title": "Third Choice"}
				]}
			}
		}
	}`)

	// SEP-1613 and SEP-2106: what of JSON Schema 2020-12 has to reach the client unchanged.
	schema2020 = json.RawMessage(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"type": "object",
		"$defs": {"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}},
		"properties": {
			"name": {"type": "string"},
			"address": {"$ref": "#/$defs/address"},
			"contactMethod": {"type": "string", "enum": ["phone", "email"]},
			"phone": {"type": "string"},
			"email": {"type": "string"}
		},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]},
		"else": {"required": ["email"]},
		"additionalProperties": false
	}`)

	// SEP-2243: an argument that clients repeat in an HTTP header.
	headerSchema = json.RawMessage(`{
		"type": "object",
		"properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "level": {"type": "integer"}}
	}`)
)
