package db

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/client"
)

// Alarm is something that a person should check.
type Alarm struct {
	Seq     int64
	Of      string // the merchant that it is about; empty in a merchant's database
	Kind    client.AlarmKind
	Subject string // what it is about, such as an id; if the row has several, the last
	At      Millis // when it was raised first

	// Of a row. To raise several alarms at once, set Number and Examples.
	Last     Millis   // when it was raised last
	Number   int64    // how often
	Examples []string // subjects, at most 5, the last first
	Moved    int64    // its place in the feed when it was raised last

	Acked     Millis // when somebody acknowledged it; 0: nobody has
	AckedBy   string // the token
	AckedName string // its name
	AckedNote string // what the person noted; may be empty

	Ended     Millis // when it ended by itself; 0: it has not
	EndedText string // why
}

// AlarmFilter selects alarms; empty members select all.
type AlarmFilter struct {
	Of       []string // merchants that may be seen; nil: all. An empty list selects none.
	Merchant string
	Kind     client.AlarmKind
	State    client.AlarmState
}

// AlarmCount is how often a kind was raised, and how many rows of it are open.
type AlarmCount struct{ Raised, Open int64 }

// The kept numbers of alarms by kind; see Tx.Counted.
const (
	countRaised = "alarms/"
	countOpen   = "alarms-open/"
)

// FeedOfAlarms numbers the rows of alarms, and each time that one is raised again.
// Transactions raise and end their alarms before they take numbers from the feeds of their
// end.
const FeedOfAlarms = "alarms"

const (
	mostExamples = 5
	exampleRunes = 500
)

const (
	alarmColumns = `seq, merchant, kind, subject, first, last, number, examples, moved, acked, acked_by, acked_name, acked_note, ended, ended_text`

	openAlarmSQL = `
SELECT ` + alarmColumns + ` FROM alarms WHERE kind = $1 AND merchant = $2 AND subject = $3 AND acked = 0 AND ended = 0`

	insertAlarmSQL = `
INSERT INTO alarms (seq, merchant, kind, subject, first, last, number, examples, moved) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

	growAlarmSQL = `
UPDATE alarms SET number = $2, last = $3, examples = $4, moved = $5 WHERE seq = $1 AND acked = 0 AND ended = 0`

	standsSQL = `SELECT 1 FROM alarms WHERE kind = $1 AND merchant = $2 AND subject = $3 AND ended = 0 LIMIT 1`

	endAlarmSQL = `
UPDATE alarms SET ended = $4, ended_text = $5 WHERE kind = $1 AND merchant = $2 AND subject = $3 AND ended = 0 AND moved <= $6
RETURNING ` + alarmColumns

	standingSQL = `SELECT ` + alarmColumns + ` FROM alarms WHERE kind {in}$1{end} AND ended = 0 ORDER BY seq`
)

// row names the row that counts a.
func (a *Alarm) row() (k alarmRow) {
	k = alarmRow{a.Of, a.Kind, ""}
	if a.Kind.BySubject() {
		k.subject = a.Subject
	}
	return k
}

type alarmRow struct {
	of      string
	kind    client.AlarmKind
	subject string
}

func (k alarmRow) args(more ...any) []any {
	return append([]any{string(k.kind), k.of, k.subject}, more...)
}

// examples puts the subjects of later before those of earlier.
func examples(later, earlier []string) []string {
	list := []string{}
	for _, text := range slices.Concat(later, earlier) {
		if text != "" && len(list) < mostExamples && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func example(text string) string {
	if utf8.RuneCountInString(text) <= exampleRunes {
		return text
	}
	return string([]rune(text)[:exampleRunes]) + "…"
}

// together merges the alarms of each row into one, in the order in which the rows first appear.
func together(list []Alarm) (rows []Alarm) {
	at := map[alarmRow]int{}
	for _, a := range list {
		a.Subject = Clean(a.Subject)
		given := []string{a.Subject}
		for _, text := range a.Examples {
			given = append(given, Clean(text))
		}
		for i, text := range given {
			given[i] = example(text)
		}
		a.Last, a.Number, a.Examples = a.At, max(a.Number, 1), examples(given, nil)
		i, known := at[a.row()]
		if !known {
			at[a.row()] = len(rows)
			rows = append(rows, a)
			continue
		}
		r := &rows[i]
		r.At, r.Last = min(r.At, a.At), max(r.Last, a.Last)
		r.Number += a.Number
		r.Examples = examples(a.Examples, r.Examples)
	}
	return rows
}

// RaiseAlarms keeps alarms as part of t. Those of an open row are counted there; a row that a
// person has acknowledged, or that has ended, stays as it is, and another one opens. Text that
// cannot be stored is cleaned.
func RaiseAlarms(ctx context.Context, t *Tx, list []Alarm) error {
	if len(list) == 0 {
		return nil
	}
	// The lock makes nodes raise one after the other, so that no row opens twice.
	seq, err := LockFeed(ctx, t, FeedOfAlarms)
	if err != nil {
		return err
	}
	var more []Statement // kept numbers, and what is to be posted
	for _, a := range together(list) {
		seq++
		row := a.row()
		more = t.Counted(more, countRaised+string(a.Kind), a.Number)
		open, err := List(ctx, t, openAlarmSQL, row.args(), scanAlarm)
		if err != nil {
			return err
		}
		if len(open) > 0 {
			was := open[0].Number
			grown, err := open[0].grow(ctx, t, a, seq)
			if err != nil {
				return err
			}
			if grown { // else somebody has acknowledged it meanwhile
				if step := tenfold(open[0].Number); step > tenfold(was) {
					more = append(more, open[0].post(step, a.Last, seq))
				}
				continue
			}
		}
		a.Seq, a.Moved = seq, seq
		if _, err := t.Exec(ctx, insertAlarmSQL, a.Seq, a.Of, string(a.Kind), row.subject, int64(a.At), int64(a.Last), a.Number, jsonOf(a.Examples), a.Moved); err != nil {
			return err
		}
		more = append(t.Counted(more, countOpen+string(a.Kind), 1), a.post(stepRaised, a.At, seq))
	}
	return t.Batch(ctx, append(more, EndFeed(FeedOfAlarms, seq)))
}

// tenfold is the greatest power of ten that n reaches.
func tenfold(n int64) int64 {
	step := int64(1)
	for n >= 10*step {
		step *= 10
	}
	return step
}

// grow counts b in the row a. It reports whether the row was still open.
func (a *Alarm) grow(ctx context.Context, t *Tx, b Alarm, moved int64) (bool, error) {
	a.Number, a.Last, a.Moved = a.Number+b.Number, max(a.Last, b.Last), moved
	a.Examples = examples(b.Examples, a.Examples)
	n, err := t.Exec(ctx, growAlarmSQL, a.Seq, a.Number, int64(a.Last), jsonOf(a.Examples), a.Moved)
	return n == 1, err
}

func jsonOf(list []string) string {
	text, _ := json.Marshal(list) // texts always have a form
	return string(text)
}

// RaiseAlarm keeps an alarm in a transaction of its own.
func (d *DB) RaiseAlarm(ctx context.Context, a Alarm) error {
	for _, text := range []struct{ member, text string }{{"of", a.Of}, {"kind", string(a.Kind)}, {"subject", a.Subject}} {
		if err := CheckIdentifier(text.member, text.text); err != nil {
			return err
		}
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error { return RaiseAlarms(ctx, t, []Alarm{a}) })
}

// RaiseNew raises the alarms of list of which no row stands, once whatever other nodes raise.
func (d *DB) RaiseNew(ctx context.Context, list []Alarm) error {
	list, err := notStanding(ctx, d, list)
	if err != nil || len(list) == 0 {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := LockFeed(ctx, t, FeedOfAlarms); err != nil {
			return err
		}
		list, err := notStanding(ctx, t, list)
		if err != nil {
			return err
		}
		return RaiseAlarms(ctx, t, list)
	})
}

func notStanding(ctx context.Context, q Querier, list []Alarm) (fresh []Alarm, err error) {
	for _, a := range list {
		var is int
		stands, err := One(ctx, q, standsSQL, a.row().args(), &is)
		if err != nil {
			return nil, err
		}
		if !stands {
			fresh = append(fresh, a)
		}
	}
	return fresh, nil
}

const everRaisedSQL = `SELECT 1 FROM alarms WHERE kind = $1 AND merchant = $2 AND subject = $3 LIMIT 1`

// RaiseAlarmOnce is RaiseAlarm for an alarm that is raised at most once, even if it was
// acknowledged or has ended.
func (d *DB) RaiseAlarmOnce(ctx context.Context, a Alarm) error {
	var is int
	if ever, err := One(ctx, d, everRaisedSQL, a.row().args(), &is); err != nil || ever {
		return err
	}
	return d.RaiseAlarm(ctx, a)
}

// EndAlarms ends the rows that stand for the alarms of list at the time At, also those that a
// person has acknowledged. EndedText says why; empty: what client says of the kind. If Moved is
// not 0, a row that was raised again after that place stays. If no row stands, it reads once and
// locks nothing.
func EndAlarms(ctx context.Context, t *Tx, list []Alarm) error {
	var standing []Alarm
	for _, a := range list {
		var is int
		stands, err := One(ctx, t, standsSQL, a.row().args(), &is)
		if err != nil {
			return err
		}
		if stands {
			standing = append(standing, a)
		}
	}
	if len(standing) == 0 {
		return nil
	}
	seq, err := LockFeed(ctx, t, FeedOfAlarms)
	if err != nil {
		return err
	}
	var more []Statement
	for _, a := range standing {
		text := cmp.Or(a.EndedText, a.Kind.Ended())
		moved := cmp.Or(a.Moved, int64(Never))
		ended, err := List(ctx, t, endAlarmSQL, a.row().args(int64(a.At), Clean(text), moved), scanAlarm)
		if err != nil {
			return err
		}
		for _, e := range ended {
			if e.Acked == 0 {
				more = t.Counted(more, countOpen+string(e.Kind), -1)
			}
			seq++
			more = append(more, e.post(stepEnded, e.Ended, seq))
		}
	}
	return t.Batch(ctx, append(more, EndFeed(FeedOfAlarms, seq)))
}

// StandingAlarms returns the rows of some kinds that have not ended, the oldest first.
func (d *DB) StandingAlarms(ctx context.Context, kinds ...client.AlarmKind) ([]Alarm, error) {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = string(k)
	}
	return List(ctx, d, standingSQL, []any{d.dialect.List(list)}, scanAlarm)
}

// EndStanding ends rows that StandingAlarms gave, unless they were raised again meanwhile.
func (d *DB) EndStanding(ctx context.Context, list []Alarm, now Millis) error {
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		list[i].At = now
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error { return EndAlarms(ctx, t, list) })
}

// AlarmsWhere lists the alarms that f selects, the newest first, beginning below seq before
// (0: with the newest). next is 0 at the end. A page may have fewer than limit alarms and a
// next page.
func (d *DB) AlarmsWhere(ctx context.Context, f AlarmFilter, limit int, before int64) (list []Alarm, next int64, err error) {
	c := f.conditions(d.dialect, before)
	return ReadNumbered(ctx, d, "alarms", alarmColumns, c, 0, limit, func(a Alarm) int64 { return a.Seq }, scanAlarm)
}

// conditions chooses the index that is walked: open rows are few.
func (f AlarmFilter) conditions(d *Dialect, before int64) *Conditions {
	c := &Conditions{}
	merchant, kind := f.Merchant != "", f.Kind != ""
	switch {
	case f.State == client.AlarmOpen:
		c.Add("acked = 0 AND ended = 0") // literals, as in the partial index
	case merchant:
		c.Add("merchant = ?", f.Merchant)
		merchant = false
	case kind:
		c.Add("kind = ?", string(f.Kind))
		kind = false
	}
	if before > 0 {
		c.Add("seq < ?", before)
	}
	c.EndWalk()
	if merchant {
		c.Add("merchant || '' = ?", f.Merchant)
	}
	if kind {
		c.Add("kind || '' = ?", string(f.Kind))
	}
	switch f.State {
	case client.AlarmAcked:
		c.Add("acked > 0")
	case client.AlarmEnded:
		c.Add("ended > 0")
	}
	if f.Of != nil {
		c.Add("merchant || '' {in}?{end}", d.List(f.Of))
	}
	return c
}

// AlarmCounts returns how many alarms there are by kind.
func (d *DB) AlarmCounts(ctx context.Context) (map[client.AlarmKind]AlarmCount, error) {
	counts, err := Counts(ctx, d)
	kinds := map[client.AlarmKind]AlarmCount{}
	for name, n := range counts {
		if kind, ok := strings.CutPrefix(name, countRaised); ok {
			kinds[client.AlarmKind(kind)] = AlarmCount{n, counts[countOpen+kind]}
		}
	}
	return kinds, err
}

// Alarm returns one alarm.
func (d *DB) Alarm(ctx context.Context, seq int64) (Alarm, error) {
	return alarm(ctx, d, seq)
}

func alarm(ctx context.Context, q Querier, seq int64) (Alarm, error) {
	return Find(ctx, q, `SELECT `+alarmColumns+` FROM alarms WHERE seq = $1`, []any{seq}, scanAlarm)
}

func scanAlarm(r Rows) (a Alarm, err error) {
	var list string
	err = r.Scan(&a.Seq, &a.Of, &a.Kind, &a.Subject, &a.At, &a.Last, &a.Number, &list, &a.Moved, &a.Acked, &a.AckedBy, &a.AckedName, &a.AckedNote, &a.Ended, &a.EndedText)
	if err != nil {
		return a, err
	}
	if err = json.Unmarshal([]byte(list), &a.Examples); err == nil && a.Subject == "" && len(a.Examples) > 0 {
		a.Subject = a.Examples[0]
	}
	return a, err
}

// AlarmAck says who acknowledges an alarm, and why.
type AlarmAck struct {
	By, Name string // the token
	Note     string // may be empty
	At       Millis
}

const (
	ackAlarmSQL = `
UPDATE alarms SET acked = $2, acked_by = $3, acked_name = $4, acked_note = $5 WHERE seq = $1 AND acked = 0 RETURNING ` + alarmColumns

	ackOpenSQL = `
UPDATE alarms SET acked = $2, acked_by = $3, acked_name = $4, acked_note = $5 WHERE seq = $1 AND acked = 0 AND ended = 0 AND moved <= $6 RETURNING ` + alarmColumns

	ackStep = 200 // rows of one transaction of AckAlarms
)

// AckAlarm acknowledges an alarm for a person. Repeating it changes nothing: the first
// acknowledgement stands. What is raised after it opens another row.
func (d *DB) AckAlarm(ctx context.Context, seq int64, ack AlarmAck) (a Alarm, err error) {
	if err := ack.check(); err != nil {
		return Alarm{}, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		acked, err := d.ack(ctx, t, ackAlarmSQL, seq, ack)
		if err == nil && acked == nil {
			a, err = alarm(ctx, t, seq)
		} else if err == nil {
			a = *acked
		}
		return err
	})
	return a, err
}

func (k AlarmAck) check() error { return CheckTexts("by", k.By, "name", k.Name, "note", k.Note) }

// ack acknowledges the row seq by text, and gives it if it did.
func (d *DB) ack(ctx context.Context, t *Tx, text string, seq int64, ack AlarmAck, more ...any) (*Alarm, error) {
	list, err := List(ctx, t, text, append([]any{seq, int64(ack.At), ack.By, ack.Name, ack.Note}, more...), scanAlarm)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	a := &list[0]
	if d.end.Acked != nil {
		if err := d.end.Acked(ctx, t, *a); err != nil {
			return nil, err
		}
	}
	if a.Ended == 0 { // else it was not open
		err = t.Count(ctx, countOpen+string(a.Kind), -1)
	}
	return a, err
}

// AckAlarms acknowledges the open alarms that f selects and that were not raised after the place
// upTo of the feed, 0: after now. It gives how many by kind, and that place; with dryRun it only
// counts. It works in bounded steps; if it fails, it gives the numbers of those before.
func (d *DB) AckAlarms(ctx context.Context, f AlarmFilter, upTo int64, ack AlarmAck, dryRun bool) (kinds map[client.AlarmKind]int64, place int64, err error) {
	kinds = map[client.AlarmKind]int64{}
	if err := ack.check(); err != nil {
		return kinds, 0, err
	}
	end, err := FeedEnd(ctx, d, FeedOfAlarms)
	if err != nil {
		return kinds, 0, err
	}
	if upTo == 0 || upTo > end {
		upTo = end
	}
	f.State = client.AlarmOpen
	for before := int64(0); ; {
		c := f.conditions(d.dialect, before)
		c.Add("moved <= ?", upTo)
		list, next, err := ReadNumbered(ctx, d, "alarms", alarmColumns, c, 0, ackStep, func(a Alarm) int64 { return a.Seq }, scanAlarm)
		if err != nil {
			return kinds, upTo, err
		}
		did := list
		if !dryRun && len(list) > 0 {
			err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
				did = nil
				// RaiseAlarms locks the feed before rows; another order would deadlock.
				if _, err := LockFeed(ctx, t, FeedOfAlarms); err != nil {
					return err
				}
				for _, a := range list {
					acked, err := d.ack(ctx, t, ackOpenSQL, a.Seq, ack, upTo)
					if err != nil {
						return err
					}
					if acked != nil {
						did = append(did, *acked)
					}
				}
				return nil
			})
			if err != nil {
				return kinds, upTo, err
			}
		}
		for _, a := range did {
			kinds[a.Kind]++
		}
		if next == 0 {
			return kinds, upTo, nil
		}
		before = next
	}
}
