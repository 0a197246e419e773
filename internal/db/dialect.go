package db

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Dialect holds every difference between the databases except how a connection is made. SQL texts have marks in
// braces where the databases differ.
//
// SQLite prepares a statement again for each new value of a parameter that its planner uses. Such parameters are a
// bare LIMIT $n, and column = $n if a partial index has column = constant. So limits are written LIMIT CAST($n AS
// BIGINT), which PostgreSQL accepts too, and partial indexes avoid columns that are compared with parameters.
type Dialect struct {
	Name string // "sqlite" or "postgres"
	// Shared says that several processes may have the database open, and that they use its clock. If false, a lock on
	// the file keeps other processes out.
	Shared bool
	// ConcurrentWriters says that writing transactions run at the same time. They can wait for each other's rows, and
	// do not see what has not been committed.
	ConcurrentWriters bool

	// marks replaces the marks of a text.
	//
	// In migrations, types replace {int}, {real}, {bytes} and {text}, which is compared and sorted by its bytes.
	// Table options replace {strict} and {clustered}, which orders rows by the primary key. "--" replaces {sqlite} or
	// {postgres} if the rest of the line is for the other database.
	//
	// In statements it replaces {lock}, {lock c} (of one table only), {skip}, {adding} (a row to counts; see
	// Tx.Counted) and, around a placeholder, {in} and {end}, or {list} and {as w}: a table w of the list's values.
	// "CROSS JOIN {inner}t i WHERE …{alone}" looks each value up by an index of t. Without it, PostgreSQL would
	// choose another plan while t is small and keep that plan when t has grown.
	marks *strings.Replacer
	table string // query that finds a table by its name
	// List returns strings as the argument for "{in}$n{end}" and "{list}$n{as w}".
	List func([]string) any
	// numbered says that numbered placeholders cost nothing.
	numbered bool

	texts sync.Map // text with marks → text without
}

func newSQLiteDialect() *Dialect {
	return &Dialect{
		Name: "sqlite",
		// One writer at a time: nothing to lock.
		marks: strings.NewReplacer("{lock}", "", "{skip}", "", "{lock c}", "",
			"{adding}", " ON CONFLICT (name) DO UPDATE SET n = counts.n + excluded.n",
			"{in}", "IN (SELECT value FROM json_each(", "{end}", "))",
			"{list}", "json_each(", "{as w}", ") AS w", "{inner}", "", "{alone}", "",
			"{int}", "INTEGER", "{real}", "REAL", "{bytes}", "BLOB", "{text}", "TEXT",
			"{strict}", " STRICT", "{clustered}", " STRICT, WITHOUT ROWID", "{sqlite}", "", "{postgres}", "--"),
		table: `SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1`,
		List:  func(l []string) any { b, _ := json.Marshal(l); return string(b) },
	}
}

func newPostgresDialect() *Dialect {
	return &Dialect{
		Name: "postgres", Shared: true, ConcurrentWriters: true,
		marks: strings.NewReplacer("{lock}", " FOR UPDATE", "{skip}", " FOR UPDATE SKIP LOCKED",
			"{lock c}", " FOR UPDATE OF c", "{adding}", "",
			"{in}", "= ANY(", "{end}", ")",
			"{list}", "unnest(CAST(", "{as w}", " AS TEXT[])) AS w (value)", "{inner}", "LATERAL (SELECT * FROM ", "{alone}",
			" OFFSET 0) i",
			"{int}", "BIGINT", "{real}", "DOUBLE PRECISION", "{bytes}", "BYTEA", "{text}", `TEXT COLLATE "C"`,
			"{strict}", "", "{clustered}", "", "{sqlite}", "--", "{postgres}", ""),
		table:    `SELECT 1 WHERE to_regclass($1) IS NOT NULL`,
		List:     func(l []string) any { return l },
		numbered: true,
	}
}

// sql returns text in this database's SQL. The Querier methods call it themselves.
func (d *Dialect) sql(text string) string {
	if done, ok := d.texts.Load(text); ok {
		return done.(string)
	}
	done := d.marks.Replace(text)
	if !d.numbered {
		done = unnumbered(done)
	}
	d.texts.Store(text, done)
	return done
}

var placeholder = regexp.MustCompile(`\$\d+`)

// unnumbered returns text with ? as placeholders if each placeholder appears once and they are in order. SQLite looks
// up numbered placeholders by name every time it binds.
func unnumbered(text string) string {
	for i, p := range placeholder.FindAllString(text, -1) {
		if p != "$"+strconv.Itoa(i+1) {
			return text
		}
	}
	return placeholder.ReplaceAllString(text, "?")
}
