package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

// Peers makes this end a witness of the logs of the other ends of its signed links, and has
// them witness its own (PROTOCOL.md, L15 to L19). It keeps the newest checkpoint of each, and raises
// AlarmPeerLogBroken where another does not continue it.
type Peers struct {
	l *Log
	// ofPeer: alarms are about a merchant, which the peer is.
	ofPeer bool

	say, listen time.Duration // sayEvery and hearEvery

	mu    sync.Mutex
	said  map[string]time.Time // when this process spoke to a peer last
	heard map[string]time.Time // and heard it
}

const (
	// sayEvery is how often an end speaks to a peer at most.
	sayEvery = time.Minute
	// hearEvery is how often a process hears a peer at most. Each of the other end's nodes
	// may speak once a minute.
	hearEvery = 2 * time.Second
	// witnessWithin bounds what a statement adds to an exchange.
	witnessWithin = time.Second
	mostPeers     = 10_000 // whose times a process remembers
)

// Peers gives the witness of the other ends. ofPeer: peers are merchants, and alarms are about
// them.
func (l *Log) Peers(ofPeer bool) *Peers {
	d := l.c.DB
	return &Peers{l: l, ofPeer: ofPeer, say: d.Every(sayEvery), listen: d.Every(hearEvery), said: map[string]time.Time{}, heard: map[string]time.Time{}}
}

// due reports whether every has passed since the time of peer in at, and then sets it to now.
func (p *Peers) due(at map[string]time.Time, peer string, every time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.l.c.Now()
	if was, ok := at[peer]; ok && now.Sub(was).Abs() < every {
		return false
	}
	if len(at) >= mostPeers {
		clear(at)
	}
	at[peer] = now
	return true
}

// Say gives the statement for a peer, the value of envelope.HeaderWitness; empty: none is due.
// A failure is logged.
func (p *Peers) Say(ctx context.Context, peer string) string {
	if !p.due(p.said, peer, p.say) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, witnessWithin)
	defer cancel()
	held, err := p.read(ctx, p.l.lists, peer, "")
	if err == nil && p.l.c.Now().Sub(held.heard.Time()).Abs() < p.say {
		return "" // another node spoke with it
	}
	text := ""
	if err == nil {
		text, err = p.statement(ctx, held, held.acked)
	}
	switch {
	case err != nil:
		p.l.c.Log.Warn("nothing was said to the other end of the audit log", "peer", peer, "error", err.Error())
	case text == "": // the log has no checkpoint yet
		p.mu.Lock()
		delete(p.said, peer)
		p.mu.Unlock()
	}
	return text
}

// Hear takes what a peer said, which the peer must have signed. A failure is logged.
func (p *Peers) Hear(ctx context.Context, peer, said string) {
	if p.due(p.heard, peer, p.listen) {
		ctx, cancel := context.WithTimeout(ctx, witnessWithin)
		defer cancel()
		p.hear(ctx, peer, said)
	}
}

// Answer is Hear, and gives the statement that answers; empty: none is due.
func (p *Peers) Answer(ctx context.Context, peer, said string) string {
	if !p.due(p.heard, peer, p.listen) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*witnessWithin)
	defer cancel()
	s, ok := p.hear(ctx, peer, said)
	if !ok {
		return ""
	}
	held, err := p.read(ctx, p.l.lists, peer, "")
	text := ""
	if err == nil {
		text, err = p.statement(ctx, held, s.known)
	}
	if err != nil {
		p.l.c.Log.Warn("nothing was said to the other end of the audit log", "peer", peer, "error", err.Error())
	}
	return text
}

func (p *Peers) hear(ctx context.Context, peer, said string) (s statement, ok bool) {
	s, err := readStatement(said)
	if err == nil && p.l.c.Now().Sub(s.at).Abs() > envelope.LinkTolerance {
		err = errOldStatement // nobody can keep a request and send it again later
	}
	if err == nil {
		err = p.take(ctx, peer, s)
	}
	if err != nil && ctx.Err() == nil {
		p.l.c.Log.Warn("what the other end says of its audit log was not taken", "peer", peer, "error", err.Error())
	}
	return s, err == nil
}

var errOldStatement = errors.New("it was made more than five minutes from now, by this clock; check the clocks of both ends")

// statement is what this end says; empty: it has no checkpoint yet. acked is how many records of this log the peer holds.
func (p *Peers) statement(ctx context.Context, held peer, acked int64) (string, error) {
	s := statement{at: p.l.c.Now().Truncate(time.Second), known: held.checkpoint.Size, key: p.l.key.verifier}
	c, signed, err := p.l.kept(ctx, lastCheckpointSQL)
	if err != nil || c.Size < 1 {
		return "", err
	}
	e, err := db.LastEpoch(ctx, p.l.lists)
	if err != nil {
		return "", err
	}
	s.signed, s.checkpoint, s.epoch = signed, c, e.Number
	if acked > c.Size {
		p.l.c.Log.Error("the other end holds more records of the audit log than there are", "peer", held.id, "holds", acked, "has", c.Size)
	}
	if 0 < acked && acked < c.Size {
		switch proof, err := tlog.ProveTree(c.Size, acked, p.l.reader(ctx)); {
		case errors.Is(err, ErrDropped): // a person of the other end decides
		case err != nil:
			return "", err
		default:
			s.old, s.proof = acked, proof
		}
	}
	return s.members(), nil
}

// peer is what is kept of the log of another end.
type peer struct {
	id         string
	key        string // verifies note
	note       string // the newest checkpoint; empty: none is kept
	checkpoint Checkpoint
	at         time.Time // of the newest statement that showed it, by the other end's clock
	heard      db.Millis // when that came
	epoch      int64     // that it declared
	acked      int64     // records of this log that it holds
	unproved   int64     // statements since then that had no proof
	broken     string    // what was wrong; empty: nothing was
	conflict   string    // the checkpoint that does not continue note
	since      db.Millis // when it was broken, or first not proved
}

// peerRows is guarded: a row that somebody set back would hide what the other end did.
var peerRows = db.Guarded{Name: "audit_peers", Key: "peer", Columns: `peer, log_key, note, at, heard, epoch, acked, unproved, broken, conflict, since`}

const (
	insertPeerSQL = `
INSERT INTO audit_peers (peer, log_key, note, at, heard, epoch, acked, unproved, broken, conflict, since, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (peer) DO NOTHING`

	updatePeerSQL = `
UPDATE audit_peers SET log_key = $2, note = $3, at = $4, heard = $5, epoch = $6, acked = $7, unproved = $8, broken = $9, conflict = $10, since = $11, mac = $12
WHERE peer = $1`

	anyPeerSQL = `SELECT 1 FROM audit_peers WHERE peer = $1{lock}`
)

func (p *peer) scan(rows db.RowReader, r db.Rows) (genuine bool, err error) {
	var at int64
	genuine, err = rows.Scan(r, &p.id, &p.key, &p.note, &at, &p.heard, &p.epoch, &p.acked, &p.unproved, &p.broken, &p.conflict, &p.since)
	if err == nil && genuine {
		p.at = time.UnixMilli(at)
		p.checkpoint, err = openCheckpoint(p.note, p.key)
	}
	return genuine, err
}

// read gives what is kept of a peer; its note is empty if nothing is, or if the row is forged,
// which raises an alarm.
func (p *Peers) read(ctx context.Context, q db.Querier, id, lock string) (held peer, err error) {
	list, err := peersOf(ctx, q, `WHERE peer = $1`+lock, id)
	if len(list) == 0 {
		return peer{id: id}, err
	}
	return list[0], err
}

// peersOf gives the rows that a clause selects, without the forged ones.
func peersOf(ctx context.Context, q db.Querier, clause string, args ...any) (list []peer, err error) {
	rows := peerRows.Reader(q)
	err = db.Each(ctx, q, peerRows.Select()+clause, args, func(r db.Rows) error {
		var one peer
		genuine, err := one.scan(rows, r)
		if err == nil && genuine {
			list = append(list, one)
		}
		return err
	})
	return list, err
}

func (p peer) keep(ctx context.Context, t *db.Tx) error {
	values := []any{p.id, p.key, p.note, p.at.UnixMilli(), int64(p.heard), p.epoch, p.acked, p.unproved, p.broken, p.conflict, int64(p.since)}
	values = append(values, peerRows.MAC(t, values...))
	var is int
	found, err := db.One(ctx, t, anyPeerSQL, []any{p.id}, &is)
	if err != nil {
		return err
	}
	text := insertPeerSQL // another node may be first: what this one heard comes again
	if found {
		text = updatePeerSQL
	}
	_, err = t.Exec(ctx, text, values...)
	return err
}

// The kinds of records about the logs of other ends.
const (
	recordPeerBroken   = "peer.broken"
	recordPeerRestored = "peer.restored"
	recordPeerAccepted = "peer.accepted"
)

// peerRecord has both checkpoints of a log that was set back, forked or begun anew: whoever has its key sees
// that its end signed both.
type peerRecord struct {
	Peer  string `json:"peer"`
	Why   string `json:"why,omitempty"`
	Key   string `json:"key"`             // of the log
	Kept  string `json:"kept"`            // the checkpoint that was kept
	New   string `json:"new"`             // the one that does not continue it
	Epoch int64  `json:"epoch,omitempty"` // that the end declares
}

// take judges a statement, and keeps what it shows.
func (p *Peers) take(ctx context.Context, id string, s statement) error {
	held, err := p.read(ctx, p.l.lists, id, "")
	if err != nil {
		return err
	}
	of, _ := held.judge(s, p.l.c.Now())
	if of == standsOlder || of == standsSame && held.broken == "" && held.acked == s.known && s.at.Sub(held.at) < p.say {
		return nil // nothing is to be written
	}
	return p.l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		held, err := p.read(ctx, t, id, "{lock}")
		if err != nil {
			return err
		}
		was := held
		now := db.MillisOf(p.l.c.Now())
		of, why := held.judge(s, now.Time())
		held.take(s, now)
		record := Record{At: now, About: []string{id}, Data: peerRecord{id, why, s.key, was.note, s.signed, s.epoch}}
		switch of {
		case standsOlder:
			return nil
		case standsFirst, standsSame, standsGrown:
			if err := p.mended(ctx, t, &held, now); err != nil {
				return err
			}
		case standsUnproved:
			held = was
			held.unproved, held.acked, held.heard = held.unproved+1, s.known, now
			if held.unproved == 1 {
				held.since = now
			}
		case standsRestored:
			held.broken, held.conflict, held.since = "", "", 0
			p.l.c.Log.Warn("the other end declares that it was restored", "peer", id, "epoch", s.epoch, "had", was.checkpoint.Size, "has", s.checkpoint.Size)
			record.Kind = recordPeerRestored
			if err := p.end(ctx, t, id, now); err != nil {
				return err
			}
			if err := Add(ctx, t, record); err != nil {
				return err
			}
		case standsBroken:
			return p.broken(ctx, t, was, s, why, record)
		}
		return held.keep(ctx, t)
	})
}

// take makes s what is kept. What was broken stays so.
func (p *peer) take(s statement, now db.Millis) {
	p.key, p.note, p.checkpoint, p.heard, p.epoch, p.acked, p.unproved = s.key, s.signed, s.checkpoint, now, s.epoch, s.known, 0
	if s.at.After(p.at) {
		p.at = s.at
	}
	if p.broken == "" {
		p.since = 0
	}
}

// alarm is the alarm about a peer.
func (p *Peers) alarm(id string, at db.Millis) db.Alarm {
	a := db.Alarm{Kind: client.AlarmPeerLogBroken, At: at}
	if p.ofPeer {
		a.Of = id
	}
	return a
}

func (p *Peers) end(ctx context.Context, t *db.Tx, id string, now db.Millis) error {
	return db.EndAlarms(ctx, t, []db.Alarm{p.alarm(id, now)})
}

// mended forgets what was broken, if a person has acknowledged the alarm and the log continues what is
// kept all the same.
func (p *Peers) mended(ctx context.Context, t *db.Tx, held *peer, now db.Millis) error {
	if held.broken == "" {
		return nil
	}
	waits, err := db.Unacknowledged(ctx, t, p.alarm(held.id, now))
	if err != nil || waits {
		return err
	}
	held.broken, held.conflict, held.since = "", "", 0
	return p.end(ctx, t, held.id, now)
}

// broken raises the alarm once. When a person has acknowledged it, the next statement is kept in
// place of the one that it does not continue.
func (p *Peers) broken(ctx context.Context, t *db.Tx, held peer, s statement, why string, record Record) error {
	now := record.At
	if held.broken == "" {
		held.broken, held.conflict, held.since = why, s.signed, now
		held.unproved = 0
		p.l.c.Log.Error("alarm", "kind", client.AlarmPeerLogBroken, "peer", held.id, "error", why)
		a := p.alarm(held.id, now)
		a.Subject = why
		if err := db.RaiseAlarms(ctx, t, []db.Alarm{a}); err != nil {
			return err
		}
		record.Kind = recordPeerBroken
		if err := Add(ctx, t, record); err != nil {
			return err
		}
		return held.keep(ctx, t)
	}
	waits, err := db.Unacknowledged(ctx, t, p.alarm(held.id, now))
	if err != nil || waits {
		return err
	}
	held.take(s, now)
	held.at, held.broken, held.conflict, held.since = s.at, "", "", 0
	p.l.c.Log.Warn("a person took the log of the other end as it is now", "peer", held.id, "has", s.checkpoint.Size)
	record.Kind = recordPeerAccepted
	if err := p.end(ctx, t, held.id, now); err != nil {
		return err
	}
	if err := Add(ctx, t, record); err != nil {
		return err
	}
	return held.keep(ctx, t)
}

// Held lists what this end holds of the logs of other ends, by their names.
func (l *Log) Held(ctx context.Context) (client.AuditPeers, error) {
	out := client.AuditPeers{Peers: []client.AuditPeer{}}
	list, err := peersOf(ctx, l.q, `ORDER BY peer`)
	for _, p := range list {
		if p.broken == "" {
			p.since = 0
		}
		out.Peers = append(out.Peers, client.AuditPeer{Peer: p.id, Log: p.checkpoint.Log, Key: p.key, Checkpoint: p.note, Size: p.checkpoint.Size, Signed: p.checkpoint.At,
			Heard: client.Time(p.heard), Epoch: p.epoch, Holds: p.acked, Broken: p.broken, Conflict: p.conflict, Since: client.Time(p.since)})
	}
	if err != nil {
		err = fmt.Errorf("reading the logs of other ends: %w", err)
	}
	return out, err
}
