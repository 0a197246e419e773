package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// checkWhole refuses a database file that is empty although the database was used, or
// that is shorter than its header says. It runs before SQLite opens the file: SQLite
// would begin an empty one anew, and throw away its log.
func checkWhole(f *os.File, used bool) error {
	path := f.Name()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	switch {
	case size == 0 && used:
		return fmt.Errorf("%w: %s is empty", ErrBroken, path)
	case size == 0:
		return nil
	}
	header := make([]byte, 100)
	if _, err := f.ReadAt(header, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: reading %s: %w", ErrBroken, path, err)
	}
	pageSize, pages, err := readHeader(header)
	if err != nil {
		return fmt.Errorf("%w: %s %w", ErrBroken, path, err)
	}
	has := size / pageSize
	if has >= max(pages, 1) {
		return nil
	}
	// A process that dies while it copies the log into the database leaves such a
	// file. The log then has the pages that are missing.
	logged, err := loggedPages(path+"-wal", has)
	if err != nil {
		return err
	}
	if has+logged < max(pages, 1) {
		return fmt.Errorf("%w: %s has %d bytes, and its header says %d", ErrBroken, path, size, max(pages, 1)*pageSize)
	}
	return nil
}

// readHeader gives the size of a page in bytes and the number of pages, 0 if the header
// does not say it.
func readHeader(h []byte) (pageSize, pages int64, err error) {
	if !bytes.HasPrefix(h, []byte("SQLite format 3\x00")) {
		return 0, 0, errors.New("is not a SQLite database")
	}
	if pageSize = int64(binary.BigEndian.Uint16(h[16:])); pageSize == 1 {
		pageSize = 65536
	}
	if pageSize < 512 {
		return 0, 0, errors.New("has a header that is damaged")
	}
	// An old version of SQLite does not keep the number; then these two differ.
	if binary.BigEndian.Uint32(h[24:]) == binary.BigEndian.Uint32(h[92:]) {
		pages = int64(binary.BigEndian.Uint32(h[28:]))
	}
	return pageSize, pages, nil
}

// loggedPages counts the pages after number after that the log at path holds.
func loggedPages(path string, after int64) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var header [32]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return 0, nil // SQLite ignores such a log
	}
	pageSize := int64(binary.BigEndian.Uint32(header[8:]))
	found := map[uint32]bool{}
	var frame [24]byte
	for at := int64(len(header)); ; at += int64(len(frame)) + pageSize {
		// A frame with other salts is left over from before the log was started again.
		if _, err := f.ReadAt(frame[:], at); err != nil || !bytes.Equal(frame[8:16], header[16:24]) {
			return int64(len(found)), nil
		}
		if page := binary.BigEndian.Uint32(frame[:]); int64(page) > after {
			found[page] = true
		}
	}
}

// checkTime bounds the check after an unclean end. It reads some hundred megabytes a
// second.
const checkTime = 10 * time.Second

// quickCheck reads the whole database, for checkTime at most, and names what is
// damaged.
func (c *sqliteConn) quickCheck(ctx context.Context, file *os.File, log *slog.Logger) error {
	bounded, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	begun := time.Now()
	err := checkPages(bounded, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		log.Warn("the database was not checked to its end after an unclean end", "checked", checkTime)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	log.Info("the database was checked after an unclean end", "ms", time.Since(begun).Milliseconds())
	return nil
}

// checkPages reads the whole of a SQLite database, and fails with ErrBroken, naming what is
// damaged.
func checkPages(ctx context.Context, q Querier) error {
	var faults []string
	err := Each(ctx, q, `PRAGMA quick_check(5)`, nil, func(r Rows) error {
		var line string
		err := r.Scan(&line)
		if line != "ok" {
			faults = append(faults, strings.ReplaceAll(line, "\n", "; "))
		}
		return err
	})
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrBroken, strings.Join(faults, "; "))
	}
	return explainSQLite(err)
}

// broken turns SQLite's error about a damaged file into ErrBroken, and names the first page
// that cannot be read.
func broken(err error, file *os.File) error {
	var e *sqlite.Error
	switch {
	case !errors.As(err, &e):
	case e.Code() == sqlite3.SQLITE_IOERR_READ:
		info, serr := file.Stat()
		header := make([]byte, 100)
		if _, rerr := file.ReadAt(header, 0); serr != nil || rerr != nil {
			break
		}
		if pageSize, _, herr := readHeader(header); herr == nil {
			if page, rerr := unreadable(file, info.Size(), pageSize); rerr != nil {
				return fmt.Errorf("%w: page %d of %s, at byte %d, cannot be read: %w", ErrBroken, page, file.Name(), (page-1)*pageSize, rerr)
			}
		}
	case e.Code()&0xff == sqlite3.SQLITE_CORRUPT, e.Code()&0xff == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %s: %w", ErrBroken, file.Name(), err)
	}
	return err
}

// unreadable gives the number, from 1, of the first page that cannot be read, and why.
func unreadable(f io.ReaderAt, size, pageSize int64) (page int64, err error) {
	b := make([]byte, pageSize)
	for at := int64(0); at < size; at += pageSize {
		if _, err := f.ReadAt(b[:min(pageSize, size-at)], at); err != nil {
			return at/pageSize + 1, err
		}
	}
	return 0, nil
}
