package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"countersign/internal/bodies"
	"countersign/internal/console"
)

// http404 is an API that has nothing, for looking at a console's table alone.
type http404 struct{}

func (http404) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// noSealer seals nothing.
type noSealer struct{}

func (noSealer) Seal(_ context.Context, plain []byte) ([]byte, error)  { return plain, nil }
func (noSealer) Open(_ context.Context, sealed []byte) ([]byte, error) { return sealed, nil }

func (noSealer) EndSession(context.Context, string, time.Time, time.Time) error { return nil }
func (noSealer) SessionEnded(context.Context, string) (bool, error)             { return false, nil }

// bareConfig is a console without an end behind it.
var bareConfig = console.Config{API: http404{}, Sealer: noSealer{}, Database: "none", Bodies: bodies.NewShares(0),
	Now: time.Now, Log: slog.New(slog.DiscardHandler)}

// queryOf is text as a value in an address.
func queryOf(text string) string { return url.QueryEscape(text) }

// pathOf is text as a part of a path.
func pathOf(text string) string { return url.PathEscape(text) }
