package client

import (
	"context"
	"encoding/json"
)

// AuditEntry is one record of the audit log.
type AuditEntry struct {
	Seq    int64           `json:"seq" minimum:"1" doc:"number in the log, without gaps"`
	Record json.RawMessage `json:"record" doc:"what happened, as the log has it: at, kind, about (ids), by (the token), node, data"`
	Proof  []byte          `json:"proof,omitempty" doc:"Base64: the hashes, 32 bytes each, that lead from the record to the checkpoint's root (RFC 6962, 2.1.1); absent: none was asked for, or the log has no other record"`
}

// AuditPage is a part of the audit log.
type AuditPage struct {
	Entries []AuditEntry `json:"entries" nullable:"false" doc:"in the order of seq"`
	Next    int64        `json:"next" doc:"the value of after for the next request"`
	Size    int64        `json:"size" doc:"number of records that the log has now"`
}

// AuditAboutOptions say which records are asked for.
type AuditAboutOptions struct {
	ID     string `query:"id"` // of a withdrawal, a callback, a merchant, a token …
	Before int64  // records before this number; 0: the newest
	Limit  int    // 0: 100
}

// AuditProof is a signed checkpoint and what it proves: that the log of an earlier
// checkpoint is its beginning, and that a record is in it. countersign audit verify
// checks it with nothing but the verifier key.
type AuditProof struct {
	Checkpoint  string      `json:"checkpoint" doc:"signed note: the log's name, its number of records, its root hash in Base64, the time"`
	Key         string      `json:"key" doc:"verifier key of the log. Whoever verifies has it from elsewhere"`
	From        int64       `json:"from,omitempty" doc:"number of records of an earlier checkpoint; absent: none"`
	Consistency []byte      `json:"consistency,omitempty" doc:"Base64: hashes, 32 bytes each: the proof that the first records, from in number, are those of the earlier checkpoint (RFC 6962, 2.1.2)"`
	Record      *AuditEntry `json:"record,omitempty" doc:"a record that is in the log; absent: none was asked for"`
}

// Audit returns a part of the audit log: the records after a number.
func (c *Common) Audit(ctx context.Context, o FeedOptions) (AuditPage, error) {
	return Get[AuditPage](ctx, c, "/v1/audit", o)
}

// AuditCheckpoint signs the log as it is now. With from, it proves that the log of
// an earlier checkpoint of that many records is its beginning.
func (c *Common) AuditCheckpoint(ctx context.Context, from int64) (AuditProof, error) {
	return Get[AuditProof](ctx, c, "/v1/audit/checkpoint", struct{ From int64 }{from})
}
