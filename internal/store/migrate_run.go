package store

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
)

const (
	readVersionSQL   = `SELECT COALESCE(MAX(number), 0) FROM schema_version`
	recordVersionSQL = `INSERT INTO schema_version (number) VALUES ($1)`
)

// run has the writer's connection for itself: the file lock keeps other
// processes out, and the writer has not started yet.
func (c *sqliteConn) run(ctx context.Context, fn func(migratorTx) error) error {
	if err := c.control(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn(sqliteMigration{ctx, c})
	if err == nil {
		err = c.control(ctx, "COMMIT")
	}
	if err != nil {
		return errors.Join(err, c.control(context.WithoutCancel(ctx), "ROLLBACK"))
	}
	return nil
}

type sqliteMigration struct {
	ctx context.Context
	c   *sqliteConn
}

// script runs several statements, once.
func (m sqliteMigration) script(text string) error {
	_, err := m.c.conn.(driver.ExecerContext).ExecContext(m.ctx, text, nil)
	return err
}

func (m sqliteMigration) version() (n int, err error) {
	_, err = one(m.ctx, m.c, readVersionSQL, nil, &n)
	return n, err
}

func (m sqliteMigration) record(number int) error {
	_, err := m.c.exec(m.ctx, recordVersionSQL, number)
	return err
}

// migrationLock is the advisory lock of nodes that migrate at the same time.
const migrationLock = 0x636f756e74657273 // "counters"

func (db *postgresDB) run(ctx context.Context, fn func(migratorTx) error) error {
	return pgx.BeginFunc(ctx, db.pool, func(t pgx.Tx) error {
		if _, err := t.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		return fn(pgMigration{ctx, t})
	})
}

type pgMigration struct {
	ctx context.Context
	tx  pgx.Tx
}

// script uses the simple protocol, which takes several statements at once.
func (m pgMigration) script(text string) error {
	_, err := m.tx.Conn().PgConn().Exec(m.ctx, text).ReadAll()
	return err
}

func (m pgMigration) version() (n int, err error) {
	err = m.tx.QueryRow(m.ctx, readVersionSQL).Scan(&n)
	return n, err
}

func (m pgMigration) record(number int) error {
	_, err := m.tx.Exec(m.ctx, recordVersionSQL, int64(number))
	return err
}
