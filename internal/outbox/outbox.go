package outbox

import (
	"embed"
	"io/fs"
	"sync"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/journal"
)

//go:embed migrations
var migrations embed.FS

// End returns the service's end, for db.Open.
func End() db.End {
	return db.End{Name: "service", Migrations: []fs.FS{db.Common, journal.Migrations, migrations}, Keep: journal.Keep,
		Acked: journal.Acked, Sealed: []db.SealedTable{{Name: "audit_key", Key: "id", DataKey: "data_key"},
			{Name: "signing_key", Key: "id", DataKey: "data_key"}, {Name: "changes", Key: "id", DataKey: "data_key"},
			{Name: "sessions", Key: "id", DataKey: "data_key"}, {Name: "merchants", Key: "id", DataKey: "data_key"},
			SealedAnswers}}
}

// SealedAnswers is the table of the answers that confirmed withdrawals. It is sealed because the body of an answer
// contains the merchant's API key.
var SealedAnswers = db.SealedTable{Name: "answers", Key: "id", DataKey: "data_key"}

// Outbox is the service's database and the operations on it. Several goroutines may use it at once and, with
// PostgreSQL, several processes.
type Outbox struct {
	*db.DB
	ids   db.IDs
	known sync.Map // ids of merchants that were seen; their rows are never deleted
	swept struct {
		mu     sync.Mutex
		after  string    // the merchant after which the next sweep continues with the lanes
		looked db.Millis // when alarms that depend on the clock were last looked at
	}
}

// New returns the outbox in d, which was opened with End.
func New(d *db.DB) *Outbox { return &Outbox{DB: d} }

// TopicOf returns the topic of due work in lane l, which is the lane's number.
func TopicOf(l countersign.Lane) db.Topic { return db.Topic(l) }

// TopicDecisions is the topic of the feed of decisions. It follows those of the lanes.
const TopicDecisions db.Topic = 2
