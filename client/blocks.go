package client

import (
	"context"
	"net/http"
	"strconv"
)

// Blocks say how the plaintext of an attempt lies in the blocks of its sealed body. With
// the padding of PKCS#1 they are those that countersign open --explain shows of the body.
type Blocks struct {
	Attempt     int           `json:"attempt" doc:"number of the attempt; 0: there was none yet"`
	RequestUUID string        `json:"requestUUID" doc:"member requestUUID of the attempt; empty: there was none yet, and its place holds zeros"`
	Fingerprint string        `json:"fingerprint" doc:"SHA-256 of the merchant's present request key; an earlier attempt may have had another"`
	BlockBytes  int           `json:"blockBytes" doc:"bytes of a sealed block"`
	Padding     string        `json:"padding" enum:"PKCS1v15,OAEP" doc:"padding of the blocks"`
	SealedBytes int           `json:"sealedBytes" doc:"bytes of all blocks"`
	Blocks      []SealedBlock `json:"blocks" nullable:"false" doc:"in the order of the body"`
}

// SealedBlock is one block of Blocks.
type SealedBlock struct {
	Index        int    `json:"index" minimum:"0" doc:"its number, from 0"`
	Offset       int    `json:"offset" minimum:"0" doc:"of its first byte in the sealed bytes"`
	PaddingBytes int    `json:"paddingBytes" minimum:"0" doc:"padding before the data, without the bytes that mark it; 0 with OAEP"`
	DataBytes    int    `json:"dataBytes" minimum:"1" doc:"bytes of the plaintext in it"`
	Data         string `json:"data" doc:"those bytes as text; a character that lies in two blocks is not readable in either"`
}

// CallbackBlocks shows how an attempt of a callback lies in blocks; the last one if
// attempt is 0.
func (s *Service) CallbackBlocks(ctx context.Context, id string, attempt int) (Blocks, error) {
	path := pathOf("callbacks", id, "/blocks")
	if attempt != 0 {
		path += "?attempt=" + strconv.Itoa(attempt)
	}
	return ask[Blocks](ctx, &s.caller, http.MethodGet, path, nil)
}
