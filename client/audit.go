package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// AuditEntry is one record of the audit log.
type AuditEntry struct {
	Seq    int64           `json:"seq" minimum:"1" doc:"number in the log, without gaps"`
	Hashes []byte          `json:"hashes" doc:"Base64: the SHA-256 hash of the record as a leaf of the tree (RFC 6962), then those of the subtrees that it completes"`
	Record json.RawMessage `json:"record" doc:"what happened, as the log has it: at, kind, about (ids), data, and private, which the tree has by its hash: by (the token), node, and what outsiders are not shown of about and data"`
}

// AuditPage is a part of the audit log.
type AuditPage struct {
	Edge    [][]byte     `json:"edge" nullable:"false" doc:"Base64: hashes of the complete subtrees of the tree of all records up to after, the largest first"`
	Entries []AuditEntry `json:"entries" nullable:"false" doc:"in the order of seq"`
	Next    int64        `json:"next" doc:"the value of after for the next request"`
	First   int64        `json:"first" doc:"number of the first record that the log has: the logs of the years before it were exported and dropped"`
	Size    int64        `json:"size" doc:"number of records that the log has now"`

	Exported int64 `json:"exported,omitempty" doc:"number of the last record of all exports that were acknowledged; absent: none was"`
}

// AuditProof is a signed checkpoint and what it proves: that the log of an earlier
// checkpoint is its beginning, and that records are in it. countersign audit verify
// checks it with nothing but the verifier key.
type AuditProof struct {
	Checkpoint   string        `json:"checkpoint" doc:"signed note: the log's name, its number of records, its root hash in Base64, the time"`
	Key          string        `json:"key" doc:"verifier key of the log. Whoever verifies has it from elsewhere"`
	Cosignatures []string      `json:"cosignatures,omitempty" doc:"what witnesses have signed of the checkpoint, each a line of a signed note"`
	From         int64         `json:"from,omitempty" doc:"number of records of an earlier checkpoint; absent: none"`
	Consistency  [][]byte      `json:"consistency,omitempty" doc:"Base64: proof that the first records, from in number, are those of the earlier checkpoint (RFC 6962, 2.1.2)"`
	Records      []AuditRecord `json:"records,omitempty" doc:"records that are in the log, in the order of seq"`
}

// AuditRecord is a record with the proof that it is in the log.
type AuditRecord struct {
	Seq    int64           `json:"seq" minimum:"1" doc:"number in the log"`
	Record json.RawMessage `json:"record" doc:"what happened, as the log has it; for outsiders with the hash of private in its place"`
	Proof  [][]byte        `json:"proof,omitempty" doc:"Base64: the hashes that lead from the record to the checkpoint's root (RFC 6962, 2.1.1)"`
	Items  []AuditItem     `json:"items,omitempty" doc:"items of a record that tells of many as one"`
}

// AuditItem is one item of a record that has the root of a tree of items.
type AuditItem struct {
	Index int64           `json:"index" minimum:"0" doc:"its place among the items of the record"`
	Item  json.RawMessage `json:"item" doc:"the item; for outsiders with the hash of private in its place"`
	Proof [][]byte        `json:"proof,omitempty" doc:"Base64: the hashes that lead from the item to the root that the record has"`
}

// AuditOptions say what an AuditProof is about.
type AuditOptions struct {
	Withdrawal string // id of a withdrawal, of the gateway the callBackId of an order; empty: none
	Callback   string // id of a callback, of the gateway its number in the inbox; empty: none
	From       int64  // number of records of an earlier checkpoint; 0: none
	// Outsider: nothing but the records about it, without who acted, from where, and what else is
	// not for others. The proof holds all the same.
	Outsider bool
}

// AuditExport names an export of the audit log that was verified. It shows that the caller has
// it: the log compares all of it with its own records.
type AuditExport struct {
	First      int64  `json:"first" minimum:"1" doc:"number of the first record"`
	Last       int64  `json:"last" minimum:"1" doc:"number of the last record"`
	Checkpoint string `json:"checkpoint" minLength:"1" maxLength:"16384" doc:"the checkpoint that the export ends with"`
	Digest     string `json:"digest" pattern:"^[0-9a-f]{64}$" doc:"SHA-256, in hexadecimal digits, of its records, each as it was hashed, with a line feed after it"`
}

// AuditLog is the log of a year: a part of all records, which ends with a signed head.
type AuditLog struct {
	Year     int64 `json:"year" doc:"the year in which it began; 0: it has no record"`
	First    int64 `json:"first" doc:"number of its first record, which names the head of the log before it"`
	Last     int64 `json:"last" doc:"number of its last record"`
	Closed   Time  `json:"closed,omitzero" doc:"when it was closed; absent: it is the present one"`
	Exported bool  `json:"exported" doc:"all of its records were exported, and the export was acknowledged"`
	Dropped  Time  `json:"dropped,omitzero" doc:"when its records were given up; absent: they are here"`
}

// AuditLogs are the logs of years.
type AuditLogs struct {
	Logs     []AuditLog `json:"logs" nullable:"false" doc:"in order, the present one last"`
	Exported int64      `json:"exported,omitempty" doc:"number of the last record of all exports that were acknowledged; absent: none was"`
}

// DropAuditLog names a log that was closed.
type DropAuditLog struct {
	Last int64 `json:"last" minimum:"1" doc:"number of its last record. The logs before it are dropped too"`
}

// AuditLogs gives the logs of years.
func (c *caller) AuditLogs(ctx context.Context) (AuditLogs, error) {
	return ask[AuditLogs](ctx, c, http.MethodGet, "/v1/audit/logs", nil)
}

// DropAuditLog gives up the records of a log that was closed and exported, and of those before it.
// Where there is an approver, the change waits, and the logs are the zero AuditLogs.
func (c *caller) DropAuditLog(ctx context.Context, in DropAuditLog) (AuditLogs, Proposed, error) {
	return propose[AuditLogs](ctx, c, http.MethodPost, "/v1/audit/logs/drop", in)
}

// AuditPeer is what an end holds of the audit log of the other end of a signed link.
type AuditPeer struct {
	Peer       string `json:"peer" doc:"at the service the merchant; at the gateway: service"`
	Log        string `json:"log" doc:"name of its log"`
	Key        string `json:"key" doc:"verifier key of its log, as it said when it was heard first"`
	Checkpoint string `json:"checkpoint" doc:"its newest checkpoint, a signed note: audit verify --from takes it"`
	Size       int64  `json:"size" doc:"number of records of that checkpoint"`
	Signed     Time   `json:"signed" doc:"when it was signed"`
	Heard      Time   `json:"heard" doc:"when the end was heard last"`
	Epoch      int64  `json:"epoch,omitempty" doc:"number of the last restore that it declared; absent: none"`
	Holds      int64  `json:"holds,omitempty" doc:"number of records of this end's log of which it holds a checkpoint; absent: none"`
	Broken     string `json:"broken,omitempty" doc:"why what it said does not continue the checkpoint (alarm peer_log_broken); absent: it did"`
	Conflict   string `json:"conflict,omitempty" doc:"the checkpoint, a signed note, that does not continue it"`
	Since      Time   `json:"since,omitzero" doc:"when that came"`
}

// AuditPeers are the other ends of signed links that were heard.
type AuditPeers struct {
	Peers []AuditPeer `json:"peers" nullable:"false" doc:"in the order of their names"`
}

// AuditPeers gives what this end holds of the audit logs of other ends.
func (c *caller) AuditPeers(ctx context.Context) (AuditPeers, error) {
	return ask[AuditPeers](ctx, c, http.MethodGet, "/v1/audit/peers", nil)
}

// AuditExported says how much of the audit log was exported.
type AuditExported struct {
	Last int64 `json:"last" doc:"number of the last record of all exports that were acknowledged"`
}

// AuditExported acknowledges an export that the caller keeps. It continues those before, or
// is an error.
func (c *caller) AuditExported(ctx context.Context, e AuditExport) (AuditExported, error) {
	return ask[AuditExported](ctx, c, http.MethodPost, "/v1/audit/exported", e)
}

// Audit gives a part of the audit log: the records after a number.
func (c *caller) Audit(ctx context.Context, o FeedOptions) (AuditPage, error) {
	return ask[AuditPage](ctx, c, http.MethodGet, withQuery("/v1/audit", o), nil)
}

// AuditCheckpoint signs the log as it is now. With from, it proves that the log of
// an earlier checkpoint of that many records is its beginning.
func (c *caller) AuditCheckpoint(ctx context.Context, from int64) (AuditProof, error) {
	return ask[AuditProof](ctx, c, http.MethodGet, withQuery("/v1/audit/checkpoint", AuditOptions{From: from}), nil)
}

// AuditEvidence gives all records about a withdrawal or a callback, with the proof
// that they are in the log.
func (c *caller) AuditEvidence(ctx context.Context, o AuditOptions) (AuditProof, error) {
	return ask[AuditProof](ctx, c, http.MethodGet, withQuery("/v1/audit/evidence", o), nil)
}
