package db

import (
	"context"
	"crypto/hmac"
	"maps"
	"strings"
	"sync"
)

// A guarded row of an earlier time has the right MAC too. So each process remembers the highest
// number of every row of a numbered table that it has seen, and its data directory keeps these
// numbers (RowNumbers, ExpectRows). A row with a lower number was put back, and one that is
// missing was removed. What this process has not seen it learns within a second: see learn.

// seenRow is a row that was read.
type seenRow struct {
	table, key string
	number     int64
}

// seenRows are the highest numbers of rows that were seen.
type seenRows struct {
	mu     sync.RWMutex
	tick   int64 // grows with each new number
	tables map[string]map[string]seenNumber
}

// seenNumber is the highest number of a row. A look that began before its tick may rightly find
// a lower one.
type seenNumber struct{ number, tick int64 }

func (s *seenRows) now() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tick
}

func (s *seenRows) of(table, key string) seenNumber {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[table][key]
}

// number gives the highest number of a row; 0: it was not seen.
func (s *seenRows) number(table, key string) int64 { return s.of(table, key).number }

// before reports whether a row was seen before a look that began at tick.
func (s *seenRows) before(table, key string, tick int64) bool {
	is := s.of(table, key)
	return is.number > 0 && is.tick <= tick
}

// missing gives the rows that were seen before a look, and are not among those it found.
func (s *seenRows) missing(table string, found map[string]bool, tick int64) (list []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, is := range s.tables[table] {
		if !found[key] && is.tick <= tick {
			list = append(list, key)
		}
	}
	return list
}

// add remembers rows that are committed.
func (s *seenRows) add(list ...seenRow) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables == nil {
		s.tables = map[string]map[string]seenNumber{}
	}
	for _, r := range list {
		of := s.tables[r.table]
		if of == nil {
			of = map[string]seenNumber{}
			s.tables[r.table] = of
		}
		if r.number > of[r.key].number {
			s.tick++
			of[r.key] = seenNumber{r.number, s.tick}
		}
	}
}

// saw reports whether a genuine row with this number is not one of an earlier time, for a look
// that began at tick, and remembers it. What a transaction reads counts when it is committed.
func (k *guard) saw(q Querier, table, key string, number, tick int64) bool {
	switch is := k.seen.of(table, key); {
	case number < is.number:
		return is.tick > tick
	case number > is.number:
		row := seenRow{table, key, number}
		if t, ok := q.(*Tx); ok {
			*t.seen = append(*t.seen, row)
		} else {
			k.seen.add(row)
		}
	}
	return true
}

// RowNumbers gives the highest number that this process has seen of each guarded row, by table
// and key, and one that grows whenever they change.
func (d *DB) RowNumbers() (numbers map[string]map[string]int64, changes int64) {
	s := &d.guard.seen
	s.mu.RLock()
	defer s.mu.RUnlock()
	numbers = map[string]map[string]int64{}
	for table, rows := range s.tables {
		of := make(map[string]int64, len(rows))
		for key, is := range rows {
			of[key] = is.number
		}
		numbers[table] = of
	}
	return numbers, s.tick
}

// RowChanges is the second value of RowNumbers.
func (d *DB) RowChanges() int64 { return d.guard.seen.now() }

// ExpectRows says which numbers guarded rows had before, as RowNumbers gave them. A row with a
// lower number, or one that is missing, is not believed.
func (d *DB) ExpectRows(numbers map[string]map[string]int64) {
	var list []seenRow
	for table, of := range numbers {
		for key, number := range of {
			list = append(list, seenRow{table, key, number})
		}
	}
	d.guard.seen.add(list...)
}

// WatchRows has Run look at tables whose rows have numbers, for what other processes have changed
// and for rows that were put back or removed.
func (d *DB) WatchRows(tables ...Guarded) {
	k := d.guard
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range tables {
		if k.watched == nil {
			k.watched, k.told = map[string]Guarded{}, map[string]bool{}
		}
		k.watched[g.Name] = g
	}
}

// learn looks at the numbers of all rows of the watched tables. A row with a higher one is read
// whole, since only its MAC shows that it is genuine. What was put back or removed is told once,
// for as long as it stays so.
func (k *guard) learn(ctx context.Context, d *DB) error {
	k.mu.Lock()
	tables := maps.Clone(k.watched)
	k.mu.Unlock()
	wrong := map[string]bool{}
	for _, g := range tables {
		if err := k.learnTable(ctx, d, g, wrong); err != nil {
			return err
		}
	}
	k.mu.Lock()
	was := k.told
	k.told = wrong
	k.mu.Unlock()
	for row := range wrong {
		if !was[row] {
			k.note(row)
		}
	}
	return nil
}

func (k *guard) learnTable(ctx context.Context, d *DB, g Guarded, wrong map[string]bool) error {
	tick := k.seen.now()
	found, higher := map[string]bool{}, []string(nil)
	err := Each(ctx, d, `SELECT `+g.Key+`, `+g.Number+` FROM `+g.Name, nil, func(r Rows) error {
		var key string
		var number int64
		if err := r.Scan(&key, &number); err != nil {
			return err
		}
		found[key] = true
		switch is := k.seen.of(g.Name, key); {
		case number > is.number:
			higher = append(higher, key)
		case number < is.number && is.tick <= tick:
			wrong[g.Name+" "+key] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range k.seen.missing(g.Name, found, tick) {
		wrong[g.Name+" "+key] = true
	}
	g.Beside = ""
	first, _, _ := strings.Cut(g.Columns, ",")
	for len(higher) > 0 {
		n := min(len(higher), 500)
		values := g.values()
		tick := k.seen.now()
		err := Each(ctx, d, g.Select()+`WHERE `+first+` {in}$1{end}`, []any{d.dialect.List(higher[:n])}, func(r Rows) error {
			var mac []byte
			if err := r.Scan(append(values, &mac)...); err != nil {
				return err
			}
			key := textOf(values[0])
			if !hmac.Equal(mac, k.mac(g, values)) || !k.saw(d, g.Name, key, numberOf(values[1]), tick) {
				wrong[g.Name+" "+key] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		higher = higher[n:]
	}
	return nil
}
