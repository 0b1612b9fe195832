//! Recognises the owner of a file and brings our tables up to date, in one transaction however many programs start at once.

use rusqlite::{Connection, TransactionBehavior};

use crate::broker::{BrokerError, BrokerErrorKind, corrupt};

use super::{
    connection,
    error::translate,
    sql::{Names, prefix},
};

/// `application_id` of a file of ours: "asyn".
const APPLICATION: i64 = 0x6173_796e;

/// Every change to the tables, with the version it leads to: 1000 times major plus minor. 1013 makes anew what 1002, 1008,
/// 1009, 1010, 1011 and 1012 made.
const MIGRATIONS: &[(i64, &str)] = &[
    (1_000, include_str!("sql/migrations/0001_tasks.sql")),
    (1_001, include_str!("sql/migrations/0002_groups.sql")),
    (1_003, include_str!("sql/migrations/0004_schedule.sql")),
    (1_004, include_str!("sql/migrations/0005_programs.sql")),
    (1_005, include_str!("sql/migrations/0006_indexes.sql")),
    (1_006, include_str!("sql/migrations/0007_checkpoints.sql")),
    (1_007, include_str!("sql/migrations/0008_shapes.sql")),
    (1_013, include_str!("sql/migrations/0013_enqueue.sql")),
];

/// Version of the newest tables this program knows.
const NEWEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Makes the file ours, unless it is already; returns how our tables are called in it.
///
/// # Errors
///
/// The file belongs to another program or a newer version, or cannot be read or written.
pub(super) fn settle_in(
    connection: &mut Connection,
    shared: bool,
    place: &str,
    prepare: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<Names, BrokerError> {
    let failed = |error| translate(error, place);
    let refused = |refusal: Refusal| refusal.into_error(place);
    // In one transaction: another program may make its tables between two of these questions, and they would look foreign.
    let before = connection.transaction().and_then(|snapshot| Found::read(&snapshot)).map_err(failed)?;
    let standing = before.decide(shared).map_err(refused)?;
    if standing.names == Names::Plain && before.objects == 0 {
        // `auto_vacuum` takes effect only before the first table, and cannot be changed later without rewriting the file.
        connection.execute_batch("PRAGMA auto_vacuum=INCREMENTAL").map_err(failed)?;
    }
    prepare(connection).map_err(failed)?;
    if standing.version >= NEWEST {
        return Ok(standing.names);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another program may have migrated the file since.
    let standing = Found::read(&transaction).map_err(failed)?.decide(shared).map_err(refused)?;
    upgrade(&transaction, standing).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(standing.names)
}

/// Checks that a foreign connection sees our tables as this program knows them.
///
/// # Errors
///
/// The connection does not see them, or the file cannot be read.
pub(super) fn check(connection: &Connection, place: &str) -> Result<(), BrokerError> {
    let standing = Found::read(connection).map_err(|error| translate(error, place))?.decide(true);
    let standing = standing.map_err(|refusal| refusal.into_error(place))?;
    if standing.version < NEWEST {
        return Err(corrupt(format!(
            "{place}: this connection finds no tasks in it, or those of an older version; was the file replaced?"
        )));
    }
    Ok(())
}

fn upgrade(transaction: &Connection, from: InstalledSchema) -> rusqlite::Result<()> {
    if from.version >= NEWEST {
        return Ok(());
    }
    if from.names == Names::Plain {
        transaction.execute_batch(&format!("PRAGMA application_id={APPLICATION}; PRAGMA user_version={NEWEST};"))?;
    } else {
        transaction.execute_batch("CREATE TABLE IF NOT EXISTS main.asynq_meta(version INTEGER NOT NULL) STRICT;")?;
        transaction.execute("DELETE FROM main.asynq_meta", [])?;
        transaction.execute("INSERT INTO main.asynq_meta(version) VALUES (?1)", [NEWEST])?;
    }
    for (_, step) in MIGRATIONS.iter().filter(|(version, _)| *version > from.version) {
        match from.names {
            Names::Plain => transaction.execute_batch(step)?,
            Names::Prefixed => transaction.execute_batch(&prefix(step))?,
        }
    }
    Ok(())
}

/// Numbers by which a file tells its owner and its version.
#[derive(Debug, Clone, Copy)]
struct Found {
    application: i64,
    user_version: i64,
    objects: i64,
    /// Names of groups and keys of locks go into a statement as bytes, which SQLite reads in the encoding of the file.
    is_utf_8: bool,
    /// Version of our tables in a file of another program.
    guest_version: Option<i64>,
    /// Whether our tables are there.
    has_tables: bool,
}

/// The names and the version of our tables in a file, before any migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InstalledSchema {
    names: Names,
    version: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Foreign,
    GuestWithoutShared,
    Encoding,
    Newer(i64),
    NoVersion,
}

impl Found {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |sql: &str| connection::number(connection, sql);
        let objects = number("SELECT count(*) FROM main.sqlite_schema")?;
        let is_host = number("SELECT count(*) FROM main.sqlite_schema WHERE name = 'asynq_meta'")? > 0;
        let guest_version = if is_host {
            connection.query_row("SELECT max(version) FROM main.asynq_meta", [], |row| row.get(0))?
        } else {
            None
        };
        let application = number("PRAGMA main.application_id")?;
        let one = if application == APPLICATION { "ulock" } else { "asynq_ulock" };
        let tables =
            number(&format!("SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = '{one}'"))?;
        Ok(Self {
            application,
            user_version: number("PRAGMA main.user_version")?,
            objects,
            is_utf_8: connection
                .query_row("PRAGMA main.encoding", [], |row| Ok(row.get_ref(0)?.as_str()? == "UTF-8"))?,
            guest_version,
            has_tables: tables > 0,
        })
    }

    fn decide(self, shared: bool) -> Result<InstalledSchema, Refusal> {
        if !self.is_utf_8 {
            return Err(Refusal::Encoding);
        }
        let standing = if self.application == APPLICATION {
            InstalledSchema { names: Names::Plain, version: self.user_version }
        } else if shared {
            InstalledSchema { names: Names::Prefixed, version: self.guest_version.unwrap_or(0) }
        } else if self.guest_version.is_some() {
            return Err(Refusal::GuestWithoutShared);
        } else if self.objects == 0 && self.application == 0 && self.user_version == 0 {
            InstalledSchema { names: Names::Plain, version: 0 }
        } else {
            return Err(Refusal::Foreign);
        };
        if standing.version / 1_000 > NEWEST / 1_000 {
            return Err(Refusal::Newer(standing.version / 1_000));
        }
        if standing.version < MIGRATIONS[0].0 && self.has_tables {
            return Err(Refusal::NoVersion);
        }
        Ok(standing)
    }
}

impl Refusal {
    fn into_error(self, place: &str) -> BrokerError {
        let error = |kind, text: &str| BrokerError::new(kind, format!("{place} {text}"));
        match self {
            Self::Foreign => error(
                BrokerErrorKind::Corrupt,
                "belongs to another program; choose another path, or add ?shared=1 to keep the tasks in it, in tables called \
                 asynq_…",
            ),
            Self::GuestWithoutShared => error(
                BrokerErrorKind::Corrupt,
                "belongs to another program that shares it with us; add ?shared=1 to the URL",
            ),
            Self::Encoding => error(
                BrokerErrorKind::Config,
                "stores texts as UTF-16, and tasks need a file of UTF-8: keep them in a file of their own",
            ),
            Self::Newer(major) => error(
                BrokerErrorKind::Config,
                &format!(
                    "was written by a newer version (its tables are version {major}, this program knows {}); update this program",
                    NEWEST / 1_000
                ),
            ),
            Self::NoVersion => error(
                BrokerErrorKind::Corrupt,
                &format!(
                    "has our tables without their version; set `PRAGMA user_version`, or in a shared file the row of asynq_meta, to \
                     what it was ({NEWEST} if this version has used them); tables without tasks may be dropped instead \
                     (docs/operations.md#sqlite)"
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_file_is_ours_new_shared_or_refused() {
        let found = |application, user_version, objects, guest_version| Found {
            application,
            user_version,
            objects,
            is_utf_8: true,
            guest_version,
            has_tables: false,
        };
        let with_tables = |file: Found| Found { has_tables: true, ..file };
        let plain = |version| Ok(InstalledSchema { names: Names::Plain, version });
        let guest = |version| Ok(InstalledSchema { names: Names::Prefixed, version });
        for (case, file, shared, expected) in [
            ("empty", found(0, 0, 0, None), false, plain(0)),
            ("ours", found(APPLICATION, 1_000, 9, None), false, plain(1_000)),
            ("ours, newer minor", found(APPLICATION, NEWEST + 1, 9, None), false, plain(NEWEST + 1)),
            ("ours, though shared was asked for", found(APPLICATION, 1_000, 9, None), true, plain(1_000)),
            ("ours, newer major", found(APPLICATION, 2_000, 9, None), false, Err(Refusal::Newer(2))),
            ("foreign", found(0, 0, 3, None), false, Err(Refusal::Foreign)),
            ("foreign, only numbers set", found(0, 7, 0, None), false, Err(Refusal::Foreign)),
            ("foreign by application", found(42, 0, 0, None), false, Err(Refusal::Foreign)),
            ("foreign, shared", found(42, 7, 3, None), true, guest(0)),
            ("foreign, shared again", found(42, 7, 20, Some(1_000)), true, guest(1_000)),
            ("foreign, shared forgotten", found(42, 7, 20, Some(1_000)), false, Err(Refusal::GuestWithoutShared)),
            ("foreign, shared, newer", found(42, 7, 20, Some(3_001)), true, Err(Refusal::Newer(3))),
            ("ours, version lost", with_tables(found(APPLICATION, 0, 37, None)), false, Err(Refusal::NoVersion)),
            ("ours, version of theirs", with_tables(found(APPLICATION, 3, 37, None)), true, Err(Refusal::NoVersion)),
            ("foreign, shared, version lost", with_tables(found(42, 7, 57, None)), true, Err(Refusal::NoVersion)),
            ("UTF-16, shared", Found { is_utf_8: false, ..found(42, 7, 3, None) }, true, Err(Refusal::Encoding)),
        ] {
            assert_eq!(file.decide(shared), expected, "{case}");
        }
    }

    #[test]
    fn a_file_of_an_older_minor_version_is_brought_up_to_date_and_keeps_its_tasks() {
        for (shared, table) in [(false, "task"), (true, "asynq_task")] {
            let mut connection = Connection::open_in_memory().unwrap();
            let (version, oldest) = MIGRATIONS[0];
            if shared {
                connection.execute_batch("CREATE TABLE main.asynq_meta(version INTEGER NOT NULL) STRICT").unwrap();
                connection.execute("INSERT INTO asynq_meta VALUES (?1)", [version]).unwrap();
                connection.execute_batch(&prefix(oldest)).unwrap();
            } else {
                connection.pragma_update(None, "application_id", APPLICATION).unwrap();
                connection.pragma_update(None, "user_version", version).unwrap();
                connection.execute_batch(oldest).unwrap();
            }
            let task = format!("INSERT INTO {table}(q, state, at, id, type) VALUES (1, 2, 3, 'a', 'test')");
            connection.execute_batch(&task).unwrap();
            settle_in(&mut connection, shared, "here", |_| Ok(())).unwrap();
            let now = Found::read(&connection).unwrap().decide(shared).unwrap();
            assert_eq!(now.version, NEWEST);
            let left = connection.query_row(&format!("SELECT id FROM {table}"), [], |row| row.get::<_, String>(0));
            assert_eq!(left.unwrap(), "a");
        }
    }

    /// Returns each table and column, and whether every insert has to name it.
    fn columns(connection: &Connection) -> BTreeMap<(String, String), bool> {
        let sql = "SELECT t.name, c.name, c.[notnull] AND c.dflt_value IS NULL
                   FROM sqlite_schema t, pragma_table_xinfo(t.name) c WHERE t.type = 'table'";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Returns each unique index, behind its table.
    fn unique_indexes(connection: &Connection) -> BTreeSet<(String, String)> {
        let sql = "SELECT t.name, i.name FROM sqlite_schema t, pragma_index_list(t.name) i
                   WHERE t.type = 'table' AND i.[unique]";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn the_statements_of_older_programs_find_their_columns_and_need_no_other() {
        let connection = Connection::open_in_memory().unwrap();
        let (mut before, mut unique_before) = (columns(&connection), unique_indexes(&connection));
        for (version, step) in MIGRATIONS {
            connection.execute_batch(step).unwrap();
            let (after, unique) = (columns(&connection), unique_indexes(&connection));
            for (table, index) in unique.difference(&unique_before) {
                let is_of_a_new_table = !before.keys().any(|(known, _)| known == table);
                assert!(is_of_a_new_table, "{version} makes {index} unique, and older programs store equal rows");
            }
            for column in before.keys() {
                assert!(after.contains_key(column), "{version} takes {column:?} away, which older programs use");
            }
            for (column, is_needed) in &after {
                let is_of_a_new_table = !before.keys().any(|(table, _)| *table == column.0);
                let is_met = !is_needed || is_of_a_new_table || before.get(column) == Some(&true);
                assert!(is_met, "{version} needs a value for {column:?}, which older programs do not write");
            }
            (before, unique_before) = (after, unique);
        }
    }

    #[test]
    fn a_task_takes_its_failures_along_in_every_deletion() {
        for shared in [false, true] {
            let mut connection = Connection::open_in_memory().unwrap();
            if shared {
                connection.execute_batch("CREATE TABLE failure(seq)").unwrap();
            }
            let names = settle_in(&mut connection, shared, "here", |_| Ok(())).unwrap();
            let run = |sql: &str| match names {
                Names::Plain => connection.execute_batch(sql).unwrap(),
                Names::Prefixed => connection.execute_batch(&prefix(sql)).unwrap(),
            };
            for id in [1, 2] {
                run(&format!(
                    "INSERT INTO main.task(seq, q, state, at, id, type, failed_at) VALUES ({id}, 1, 5, 3, '{id}', 'test', 3);
                     INSERT INTO main.failure(seq, n, at, error) VALUES ({id}, 1, 3, 'boom'), ({id}, 2, 4, 'boom');"
                ));
            }
            run("DELETE FROM main.task WHERE seq = 1");
            let p = if shared { "asynq_" } else { "" };
            let left = format!("SELECT sum(seq) FROM {p}failure");
            assert_eq!(connection.query_row(&left, [], |row| row.get::<_, i64>(0)).unwrap(), 4);
        }
    }

    #[test]
    fn both_ways_to_name_the_tables_make_every_statement_valid() {
        for shared in [false, true] {
            let mut connection = super::super::connection::open_memory().unwrap();
            if shared {
                connection.execute_batch("CREATE TABLE task(theirs)").unwrap();
            }
            let names = settle_in(&mut connection, shared, "here", |_| Ok(())).unwrap();
            assert_eq!(names == Names::Prefixed, shared);
            for (name, sql) in super::super::sql::ALL {
                if let Err(error) = connection.prepare(sql.text(names)) {
                    panic!("{name}: {error}");
                }
            }
            assert_eq!(settle_in(&mut connection, shared, "here", |_| Ok(())).unwrap(), names);
        }
    }
}
