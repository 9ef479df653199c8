//go:build unix

package sqlstore

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/redeemtest"
)

// onEachDatabase runs test on a new database of each kind. Every call of open is another pool of connections to it.
func onEachDatabase(t *testing.T, test func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB)) {
	t.Run("PostgreSQL", func(t *testing.T) { test(t, PostgreSQL, startPostgres(t).open) })
	t.Run("SQLite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "redeemed.db")
		test(t, SQLite, func(t testing.TB) *sql.DB { return openSQLite(t, file) })
	})
}

func newStore(t testing.TB, db *sql.DB, dialect Dialect, table string) *Store {
	t.Helper()
	store, err := New(db, dialect, &Options{Table: table})
	must(t, err)
	must(t, store.CreateTable(t.Context()))
	return store
}

func TestStoresConform(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB) {
		redeemtest.RunShared(t, func(t *testing.T) contoken.RedeemStore { return newStore(t, open(t), dialect, "") })
	})
}

func TestNoIDIsFirstTwiceThroughACrash(t *testing.T) {
	server := startPostgres(t)
	redeemtest.RunCrash(t, newStore(t, server.open(t), PostgreSQL, ""), server.kill, server.start)
}

// A process that is killed leaves behind what it has reported.
func TestNoIDIsFirstTwiceAfterItsSQLiteProcessWasKilled(t *testing.T) {
	const fileVariable = "CONTOKEN_TEST_SQLITE_FILE"
	if file := os.Getenv(fileVariable); file != "" {
		redeemUntilKilled(t, newStore(t, openSQLite(t, file), SQLite, ""))
	}
	file := filepath.Join(t.TempDir(), "redeemed.db")
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), fileVariable+"="+file)
	output, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	var reported []string
	for lines := bufio.NewScanner(output); lines.Scan(); {
		reported = append(reported, lines.Text())
		if len(reported) == 200 {
			child.Process.Kill() // and read what it still said
		}
	}
	child.Wait()
	if len(reported) < 200 {
		t.Fatalf("the process ended after %d ids: %q", len(reported), reported)
	}
	store := newStore(t, openSQLite(t, file), SQLite, "")
	for _, id := range reported {
		if first, err := store.Redeem(t.Context(), id, time.Now().Add(time.Hour)); first || err != nil {
			t.Fatalf("id %s: first %t, error %v, want neither", id, first, err)
		}
	}
}

func redeemUntilKilled(t *testing.T, store *Store) {
	for i := 0; ; i++ {
		id := strconv.Itoa(i)
		if first, err := store.Redeem(t.Context(), id, time.Now().Add(time.Hour)); !first || err != nil {
			t.Fatalf("id %s: first %t, error %v, want first", id, first, err)
		}
		os.Stdout.WriteString(id + "\n")
	}
}

func TestInstancesCanCreateTheTableAtOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB) {
		db := open(t)
		for round := range 5 {
			errs := make([]error, 8)
			var group sync.WaitGroup
			for i := range errs {
				store, err := New(db, dialect, &Options{Table: fmt.Sprint("round_", round)})
				must(t, err)
				group.Go(func() { errs[i] = store.CreateTable(t.Context()) })
			}
			group.Wait()
			must(t, errors.Join(errs...))
		}
	})
}

func TestTablesAreApart(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB) {
		db := open(t)
		for _, table := range []string{"", "other", "Other_Table", "select", strings.Repeat("x", 48)} {
			first, err := newStore(t, db, dialect, table).Redeem(t.Context(), "id", time.Now().Add(time.Hour))
			if !first || err != nil {
				t.Errorf("table %q: first %t, error %v, want first", table, first, err)
			}
		}
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	db := openSQLite(t, filepath.Join(t.TempDir(), "unused.db"))
	for name, test := range map[string]struct {
		db      *sql.DB
		dialect Dialect
		table   string
	}{
		"no database":     {nil, SQLite, ""},
		"no dialect":      {db, 0, ""},
		"unknown dialect": {db, 3, ""},
		"quote":           {db, SQLite, `a"b`},
		"space":           {db, SQLite, "a b"},
		"digit":           {db, SQLite, "1a"},
		"newline":         {db, SQLite, "a\n"},
		"schema":          {db, SQLite, "a.b"},
		"49 letters":      {db, SQLite, strings.Repeat("x", 49)},
	} {
		store, err := New(test.db, test.dialect, &Options{Table: test.table})
		if store != nil || !errors.Is(err, contoken.ErrInput) {
			t.Errorf("%s: store %v, error %v, want none and ErrInput", name, store, err)
		}
	}
	if _, err := New(db, SQLite, nil); err != nil {
		t.Errorf("nil options: %v", err)
	}
}

func TestExpiredIDIsRefusedAndNotRecorded(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB) {
		db := open(t)
		store := newStore(t, db, dialect, "")
		for _, expires := range []time.Time{databaseNow(t, db, dialect), time.Now().Add(-time.Hour), {}} {
			if first, err := store.Redeem(t.Context(), "id", expires); first || !errors.Is(err, ErrExpired) {
				t.Errorf("expires %v: first %t, error %v, want ErrExpired", expires, first, err)
			}
		}
		if left := ids(t, db); len(left) != 0 {
			t.Errorf("the table holds %v, want nothing", left)
		}
	})
}

func TestExpiryIsRoundedUpToWholeSeconds(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB) {
		db := open(t)
		store := newStore(t, db, dialect, "")
		whole := time.Now().Add(time.Hour).Truncate(time.Second)
		for expires, want := range map[time.Time]int64{whole: whole.Unix(), whole.Add(1): whole.Unix() + 1} {
			id := expires.String()
			if _, err := store.Redeem(t.Context(), id, expires); err != nil {
				t.Fatal(err)
			}
			var stored int64
			query := "SELECT expires FROM " + DefaultTable + " WHERE id = $1"
			must(t, db.QueryRowContext(t.Context(), query, id).Scan(&stored))
			if stored != want {
				t.Errorf("%v is stored as %d, want %d", expires, stored, want)
			}
		}
	})
}

// An instance that is slow to ask may come after the expiry.
func TestExpiredIDThatIsOnRecordIsNotFirst(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB) {
		db := open(t)
		store := newStore(t, db, dialect, "")
		expires := databaseNow(t, db, dialect).Add(-time.Second)
		record(t, db, "id", expires)
		if first, err := store.Redeem(t.Context(), "id", expires); first || err != nil {
			t.Errorf("first %t, error %v, want neither", first, err)
		}
	})
}

func TestPruneDeletesWhatExpiredFiveMinutesAgo(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, dialect Dialect, open func(testing.TB) *sql.DB) {
		db := open(t)
		store := newStore(t, db, dialect, "")
		now := databaseNow(t, db, dialect)
		record(t, db, "long gone", now.Add(-time.Hour))
		record(t, db, "gone", now.Add(-5*time.Minute))
		record(t, db, "expired", now.Add(-4*time.Minute))
		record(t, db, "live", now.Add(time.Minute))
		if deleted, err := store.Prune(t.Context()); deleted != 2 || err != nil {
			t.Errorf("deleted %d, error %v, want 2", deleted, err)
		}
		if left := fmt.Sprint(ids(t, db)); left != "[expired live]" {
			t.Errorf("left %s, want [expired live]", left)
		}
	})
}

func TestPruneEveryReportsErrorsAndGoesOn(t *testing.T) {
	db := openSQLite(t, filepath.Join(t.TempDir(), "redeemed.db"))
	store, err := New(db, SQLite, nil) // without its table
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := 0
	store.PruneEvery(ctx, time.Millisecond, func(err error) {
		if err == nil || ctx.Err() != nil {
			t.Errorf("reported %v after %v", err, ctx.Err())
		}
		if reports++; reports == 3 {
			cancel()
		}
	})
	if reports != 3 {
		t.Errorf("%d reports, want 3", reports)
	}
}

func TestPruneEveryPrunesAtOnce(t *testing.T) {
	db := openSQLite(t, filepath.Join(t.TempDir(), "redeemed.db"))
	store := newStore(t, db, SQLite, "")
	record(t, db, "gone", time.Now().Add(-time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { store.PruneEvery(ctx, time.Hour, func(err error) { t.Error(err) }) })
	for len(ids(t, db)) > 0 && ctx.Err() == nil {
	}
	if ctx.Err() != nil {
		t.Error("nothing was pruned")
	}
	cancel()
	group.Wait()
}

func TestErrorsHoldNoIDAndNoPassword(t *testing.T) {
	const id, password = "an-id-of-a-token", "a-password"
	noTable := openSQLite(t, filepath.Join(t.TempDir(), "empty.db"))
	noServer := open(t, "pgx", "postgres://contoken:"+password+"@127.0.0.1:1/postgres")
	for name, db := range map[string]*sql.DB{"no table": noTable, "no server": noServer} {
		store, err := New(db, SQLite, nil)
		must(t, err)
		_, redeemErr := store.Redeem(t.Context(), id, time.Now().Add(time.Hour))
		_, pruneErr := store.Prune(t.Context())
		errs := []error{redeemErr, pruneErr}
		if name == "no server" { // without a table, it could be created
			errs = append(errs, store.CreateTable(t.Context()))
		}
		for _, err := range errs {
			if err == nil || !strings.HasPrefix(err.Error(), "sqlstore: cannot ") {
				t.Errorf("%s: error %v, want one of the store", name, err)
				continue
			}
			if strings.Contains(err.Error(), id) || strings.Contains(err.Error(), password) {
				t.Errorf("%s: %v tells too much", name, err)
			}
		}
	}
}

func TestPrintedStoreHoldsNoPassword(t *testing.T) {
	const password = "a-password"
	store, err := New(open(t, "sqlite", "file:unused.db?password="+password), SQLite, nil)
	must(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%t"} {
		for _, printed := range []any{store, *store, struct{ store *Store }{store}, struct{ store Store }{*store}} {
			if text := fmt.Sprintf(verb, printed); strings.Contains(text, password) {
				t.Errorf("%s of %T tells the password", verb, printed)
			}
		}
	}
}

// databaseNow returns the clock of the database, in whole seconds rounded down.
func databaseNow(t testing.TB, db *sql.DB, dialect Dialect) time.Time {
	t.Helper()
	var unix int64
	query := "SELECT CAST(floor(" + dialects[dialect].now + ") AS BIGINT)"
	must(t, db.QueryRowContext(t.Context(), query).Scan(&unix))
	return time.Unix(unix, 0)
}

func record(t testing.TB, db *sql.DB, id string, expires time.Time) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "INSERT INTO "+DefaultTable+" VALUES ($1, $2)", id, expires.Unix())
	must(t, err)
}

func ids(t testing.TB, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM "+DefaultTable+" ORDER BY id")
	must(t, err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id string
		must(t, rows.Scan(&id))
		all = append(all, id)
	}
	must(t, rows.Err())
	return all
}

func BenchmarkRedeem(b *testing.B) {
	bench := func(db *sql.DB, dialect Dialect) func(*testing.B) {
		return func(b *testing.B) {
			store := newStore(b, db, dialect, "")
			expires := time.Now().Add(time.Hour)
			b.RunParallel(func(loop *testing.PB) {
				for loop.Next() {
					if first, err := store.Redeem(b.Context(), rand.Text(), expires); !first || err != nil {
						b.Errorf("first %t, error %v, want first", first, err)
					}
				}
			})
		}
	}
	b.Run("PostgreSQL", bench(startPostgres(b).open(b), PostgreSQL))
	b.Run("SQLite", bench(openSQLite(b, filepath.Join(b.TempDir(), "redeemed.db")), SQLite))
}
