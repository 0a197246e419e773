package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"countersign/internal/db"
)

// ticksPerSecond is the unit of /proc/PID/stat, 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// serverTime is how much of the processors a PostgreSQL server's processes had used at
// one moment.
type serverTime struct {
	postmaster int // 0: the server is not on this machine, or its processes cannot be seen
	used       time.Duration
}

// newServerTime looks for the processes of the server that q reads from.
func newServerTime(ctx context.Context, q db.Querier) (serverTime, error) {
	var backend int
	if _, err := db.One(ctx, q, "SELECT pg_backend_pid()", nil, &backend); err != nil {
		return serverTime{}, err
	}
	one, err := readStat(backend)
	if err != nil || one.command != "postgres" {
		return serverTime{}, nil
	}
	s := serverTime{postmaster: one.parent}
	s.used, err = s.now()
	return s, err
}

// since is how much the server has used since s was made.
func (s serverTime) since() (time.Duration, error) {
	now, err := s.now()
	return now - s.used, err
}

// now adds up all processes of the server, those included that have ended.
func (s serverTime) now() (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return 0, err
		}
		p, err := readStat(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended
		case err != nil:
			return 0, err
		case pid == s.postmaster:
			sum += p.used + p.ofEnded
		case p.parent == s.postmaster:
			sum += p.used
		}
	}
	return sum, nil
}

// processStat is a part of /proc/PID/stat (proc(5)).
type processStat struct {
	command string
	parent  int
	used    time.Duration
	ofEnded time.Duration // of its children that have ended
}

func readStat(pid int) (processStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	// The command is in brackets and may hold anything.
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return processStat{}, fmt.Errorf("/proc/%d/stat is not what proc(5) says", pid)
	}
	rest := strings.Fields(string(text[end+1:])) // from field 3 on
	if len(rest) < 15 {
		return processStat{}, fmt.Errorf("/proc/%d/stat is not what proc(5) says", pid)
	}
	numbers := make([]int, 15)
	for i := 1; i < len(numbers); i++ {
		if numbers[i], err = strconv.Atoi(rest[i]); err != nil {
			return processStat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	ticks := func(a, b int) time.Duration {
		return time.Duration(numbers[a]+numbers[b]) * time.Second / ticksPerSecond
	}
	return processStat{command: string(text[begin+1 : end]), parent: numbers[1], used: ticks(11, 12), ofEnded: ticks(13, 14)}, nil
}
