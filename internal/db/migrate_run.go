package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// run uses only the writer's connection. That suffices, because the file lock keeps other processes out and the
// writer has not started yet.
func (c *sqliteConn) run(ctx context.Context, fn func(Querier) error) error {
	if err := c.control(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn(c)
	if err == nil {
		err = c.control(ctx, "COMMIT")
	}
	if err != nil {
		return errors.Join(err, c.control(context.WithoutCancel(ctx), "ROLLBACK"))
	}
	return nil
}

// migrationLock is the advisory lock that nodes take to migrate one after another.
const migrationLock = 0x636f756e74657273 // "counters"

func (db *postgresDB) run(ctx context.Context, fn func(Querier) error) error {
	// The level is set here whatever the URL asks for, because run must see what was committed before it got the
	// lock.
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, db.pool, options, func(t pgx.Tx) error {
		if _, err := t.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		return fn(pgQuerier{db.d, t})
	})
}

// mayChangeSQL returns the role, the schema, whether the role may create there, and whether it owns the existing
// tables.
const mayChangeSQL = `
SELECT current_user, COALESCE(current_schema(), ''), COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE),
	NOT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_version' AND NOT pg_has_role(tableowner, 'USAGE'))`

// mayChange returns an error if the role may not change the tables.
func mayChange(ctx context.Context, q Querier, d *Dialect) error {
	if !d.Shared {
		return nil
	}
	var role, schema string
	var create, owns bool
	_, err := One(ctx, q, mayChangeSQL, nil, &role, &schema, &create, &owns)
	switch {
	case err != nil:
		return err
	case schema == "":
		return fmt.Errorf("the role %s has no schema to work in: grant it USAGE", role)
	case !create:
		return fmt.Errorf("the role %s may not create anything in the schema %s", role, schema)
	case !owns:
		return fmt.Errorf("the role %s does not own the tables of the schema %s", role, schema)
	}
	return nil
}
