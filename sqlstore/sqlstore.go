// Package sqlstore remembers redeemed one-time tokens in a table of PostgreSQL or SQLite, through database/sql and any
// driver. Each token costs one INSERT.
//
// # What the database must be set to
//
// The store is as good as the commits of its database: an id that the database loses can be redeemed again.
//
//   - PostgreSQL keeps every id through a crash with its defaults, fsync and synchronous_commit on. A failover to a
//     standby keeps them if the standby is synchronous (synchronous_standby_names).
//   - SQLite keeps every id through a crash of the process. To keep them through a loss of power as well, set PRAGMA
//     synchronous to FULL, its default. Set busy_timeout, or one of two writers that meet gets an error.
//
// # Clocks
//
// The clock of the database alone decides when an id has expired, so the clocks of the instances do not matter. A
// database whose clock is ahead refuses tokens early, and accepts none twice.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/contoken/contoken"
)

// DefaultTable is the table of a store unless Options says otherwise.
const DefaultTable = "contoken_redeemed"

// keptAfterExpiry is how many seconds Prune spares an expired id, in case the clock of the database is set back.
const keptAfterExpiry = 5 * 60

// ErrExpired is an id whose expiry is past by the clock of the database. It was not recorded, for a record of it may
// have come and gone.
var ErrExpired = errors.New("sqlstore: the expiry of the id is past")

// Dialect is the SQL that a database speaks.
type Dialect int

const (
	// PostgreSQL is version 9.5 or later.
	PostgreSQL Dialect = iota + 1
	// SQLite is version 3.38 or later.
	SQLite
)

// syntax is where dialects differ.
type syntax struct {
	now  string   // the current Unix time
	lock []string // has transactions that create the table wait for each other
}

var dialects = map[Dialect]syntax{
	PostgreSQL: {
		now:  `extract(epoch FROM clock_timestamp())`,
		lock: []string{`SELECT pg_advisory_xact_lock(x'636f6e746f6b656e'::bigint)`}, // "contoken"
	},
	SQLite: {
		now:  `unixepoch()`,
		lock: nil, // only one can write at a time
	},
}

// Options configures a [Store]. The zero value is valid, and New copies it.
type Options struct {
	// Table is the name of the table: at most 48 ASCII letters, digits and underscores, the first of them no digit. In
	// PostgreSQL the search path says which schema it is in. Empty means DefaultTable.
	Table string
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}$`)

// Store is a [contoken.RedeemStore] on a database. It is safe for concurrent use.
type Store struct {
	// A closure keeps the database, which holds the password, where fmt and its kin cannot follow.
	db         func() *sql.DB
	statements statements
}

var _ contoken.RedeemStore = (*Store)(nil)

// New returns a store on db, which stays the caller's to configure and close; nil opts means the zero Options. It does
// not talk to the database. A nil db, an unknown dialect and an unsuitable table name are contoken.ErrInput.
func New(db *sql.DB, dialect Dialect, opts *Options) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: nil database", contoken.ErrInput)
	}
	syntax, ok := dialects[dialect]
	if !ok {
		return nil, fmt.Errorf("%w: unknown SQL dialect %d", contoken.ErrInput, dialect)
	}
	table := DefaultTable
	if opts != nil && opts.Table != "" {
		table = opts.Table
	}
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("%w: table name is not 1 to 48 letters, digits and underscores", contoken.ErrInput)
	}
	return &Store{func() *sql.DB { return db }, newStatements(table, syntax)}, nil
}

// statements are the SQL of a store.
type statements struct {
	create              []string
	insert, find, prune string
}

func newStatements(table string, syntax syntax) statements {
	fill := strings.NewReplacer(
		"{table}", `"`+table+`"`,
		"{index}", `"`+table+`_expires"`,
		"{now}", syntax.now,
		"{kept}", fmt.Sprint(keptAfterExpiry),
	).Replace
	return statements{
		create: slices.Concat(syntax.lock, []string{
			fill(`CREATE TABLE IF NOT EXISTS {table} (id TEXT PRIMARY KEY, expires BIGINT NOT NULL)`),
			fill(`CREATE INDEX IF NOT EXISTS {index} ON {table} (expires)`),
		}),
		insert: fill(`INSERT INTO {table} (id, expires) SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT) ` +
			`WHERE CAST($2 AS BIGINT) > {now} ON CONFLICT (id) DO NOTHING`),
		find:  fill(`SELECT EXISTS (SELECT 1 FROM {table} WHERE id = $1)`),
		prune: fill(`DELETE FROM {table} WHERE expires <= {now} - {kept}`),
	}
}

// CreateTable creates the table and its index where they do not exist. All instances may call it when they start. It
// needs the right to create tables; the README has the statements for those who would rather run them elsewhere.
func (s *Store) CreateTable(ctx context.Context) error {
	if err := s.createTable(ctx); err != nil {
		return failed("create the table", err)
	}
	return nil
}

func (s *Store) createTable(ctx context.Context) error {
	tx, err := s.db().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	for _, statement := range s.statements.create {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Redeem records id until expires, rounded up to whole seconds, and reports whether it had not been recorded before.
// An expiry that is past by the clock of the database is ErrExpired, unless the id is still on record. Any other error
// is that of the driver, wrapped, and leaves open whether the id was recorded; then first is false, and later calls
// may all report the same.
func (s *Store) Redeem(ctx context.Context, id string, expires time.Time) (first bool, err error) {
	result, err := s.db().ExecContext(ctx, s.statements.insert, id, ceilUnix(expires))
	if err != nil {
		return false, failed("record an id", err)
	}
	inserted, err := result.RowsAffected()
	if err != nil {
		return false, failed("record an id", err)
	}
	if inserted == 1 {
		return true, nil
	}
	var recorded bool
	if err := s.db().QueryRowContext(ctx, s.statements.find, id).Scan(&recorded); err != nil {
		return false, failed("find an id", err)
	}
	if !recorded {
		return false, ErrExpired
	}
	return false, nil
}

// ceilUnix returns the first whole second that is not before t.
func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// Prune deletes the ids that expired at least five minutes ago, by the clock of the database, and returns how many. Any
// number of instances may prune at any time. A table that is not pruned only grows.
func (s *Store) Prune(ctx context.Context) (deleted int64, err error) {
	result, err := s.db().ExecContext(ctx, s.statements.prune)
	if err != nil {
		return 0, failed("prune the table", err)
	}
	if deleted, err = result.RowsAffected(); err != nil {
		return 0, failed("prune the table", err)
	}
	return deleted, nil
}

// PruneEvery prunes at once and then after every interval, until ctx is done. It calls report with each error and goes
// on. Run it in a goroutine, of one instance or of all.
func (s *Store) PruneEvery(ctx context.Context, interval time.Duration, report func(error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if _, err := s.Prune(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func failed(to string, err error) error { return fmt.Errorf("sqlstore: cannot %s: %w", to, err) }
