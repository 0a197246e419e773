// Package journal is the append-only log of an end: a Merkle tree with a signed head. A record
// is added in the same transaction as the change it records.
//
// The tree is that of RFC 6962, as in golang.org/x/mod/sumdb/tlog, and a checkpoint is
// a signed note as in golang.org/x/mod/sumdb/note. A record that was changed, removed
// or inserted gives another root than the one that was signed.
//
// What outsiders have no business with is in a member of each record that the tree has by its
// hash; see Shown and Withhold.
//
// The files evidence*.go have the kinds and members of the records of both ends. Logs that
// exist hold them, and some items are made again from rows to prove them: members may be
// added, and none changed or taken away.
package journal
