package dbtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5"
)

// Dump writes a PostgreSQL database that Postgres gave to a new file, as pg_dump does
// while it is in use.
func Dump(ctx context.Context, url, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(client(nil, f, "pg_dump", "-Fc", "-d", url), f.Close())
}

// Load puts what Dump wrote in the place of a database, and ends every connection to it.
func Load(ctx context.Context, url, path string) error {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	name := pgx.Identifier{c.Database}.Sanitize()
	c.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, text := range []string{"DROP DATABASE " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		if _, err := conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return client(f, nil, "pg_restore", "--exit-on-error", "-d", url)
}

// client runs one of PostgreSQL's clients.
func client(in io.Reader, out io.Writer, name string, args ...string) error {
	var said bytes.Buffer
	cmd := shared.cluster.program(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, said.String())
	}
	return nil
}
