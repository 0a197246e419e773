// Package strictjson is the one reader of JSON under the protocol's messages and under both APIs. It accepts what RFC
// 8259 allows, except what readers disagree on (PROTOCOL.md, M1 and M2), because other software may read the same
// bytes: no member twice in one object, no half of a surrogate pair, no U+0000, no invalid UTF-8, no nesting beyond
// MaxDepth. What it accepts, encoding/json reads with the same values.
package strictjson
