//! The database under test: where it is, what is done to it, and what its tables hold.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use chronolith_projection::{Database, Passwords, execute, jobs, set_up};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};

const CONNECTIONS: usize = 3;

/// A server of databases.
pub(super) struct Server {
    url: String,
    /// A server that this test started and may kill.
    private: Option<Arc<TempPostgres>>,
}

impl Server {
    /// The one at a URL, or one of our own; none where PostgreSQL is not installed, which is printed.
    pub(super) async fn start(url: Option<&str>) -> Result<Option<Self>> {
        if let Some(url) = url {
            return Ok(Some(Self {
                url: url.to_owned(),
                private: None,
            }));
        }
        let options = TempPostgresOptions::default();
        let started = tokio::task::spawn_blocking(move || TempPostgres::start(&options));
        match started.await.context("start a database")? {
            Ok(server) => Ok(Some(Self {
                url: server.url.clone(),
                private: Some(Arc::new(server)),
            })),
            Err(error) => {
                println!("Nothing is projected: {error}");
                Ok(None)
            }
        }
    }

    /// A new database with empty tables, in place of any of an earlier run.
    pub(super) async fn database(&self, name: &str) -> Result<Rows> {
        self.remove(name).await?;
        execute(&self.url, &[&format!("CREATE DATABASE {name}")]).await?;
        let url = with_database(&self.url, name);
        set_up(&url, &Passwords::default()).await?;
        let database = Database::writer(&url, CONNECTIONS, &[])?;
        Ok(Rows { url, database })
    }

    /// Takes a database away.
    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        let remove = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        Ok(execute(&self.url, &[&remove]).await?)
    }

    /// Whether it is our own to kill.
    pub(super) fn may_die(&self) -> bool {
        self.private.is_some()
    }

    /// Kills it and starts it again.
    pub(super) async fn crash(&self) -> Result<()> {
        let Some(server) = self.private.clone() else {
            return Ok(());
        };
        let crash = tokio::task::spawn_blocking(move || {
            server.kill()?;
            server.restart()
        });
        crash.await.context("kill the database")??;
        Ok(())
    }
}

/// Writes down, with every write that needs a lease, who made it and who held that lease.
const WATCH: &str = "SET ROLE indexer_writer; \
    CREATE TABLE public.torture_writes (who TEXT, holder TEXT, what TEXT); \
    CREATE FUNCTION public.torture_watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        INSERT INTO public.torture_writes SELECT current_setting('application_name'), \
            (SELECT regexp_replace(holder, '.*:', '') FROM public.leases \
             WHERE chain_id = NEW.chain_id AND kind = TG_ARGV[0]), TG_TABLE_NAME; \
        RETURN NEW; END $$; \
    CREATE TRIGGER watch AFTER INSERT ON public.pending_blocks \
        FOR EACH ROW EXECUTE FUNCTION public.torture_watch('writer'); \
    CREATE TRIGGER watch AFTER INSERT ON public.dropped_blocks \
        FOR EACH ROW EXECUTE FUNCTION public.torture_watch('finality'); \
    CREATE TRIGGER watch AFTER UPDATE OF last_safe_block ON public.processing_state \
        FOR EACH ROW EXECUTE FUNCTION public.torture_watch('finality')";

/// The same server, another database.
fn with_database(url: &str, name: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return format!("{url} dbname={name}");
    };
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let host = before.split_once('/').map_or(before, |(host, _)| host);
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{host}/{name}{mark}{query}")
}

/// One database.
pub(super) struct Rows {
    pub(super) url: String,
    database: Database,
}

impl Rows {
    /// Texts that a statement selects, in order.
    pub(super) async fn texts(&self, statement: &str) -> Result<Vec<String>> {
        let rows = self.database.client().await?.query(statement, &[]).await;
        let rows = rows.with_context(|| format!("cannot ask: {statement}"))?;
        let mut texts: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        texts.sort();
        Ok(texts)
    }

    async fn number(&self, statement: &str) -> Result<i64> {
        let client = self.database.client().await?;
        let row = client.query_one(statement, &[]).await;
        let row = row.with_context(|| format!("cannot ask: {statement}"))?;
        Ok(row.get(0))
    }

    /// Makes time pass: any process may take the leases now.
    pub(super) async fn let_leases_run_out(&self) -> Result<()> {
        let expire = "UPDATE leases SET expires_at = now() - interval '1 second'";
        self.database.client().await?.execute(expire, &[]).await?;
        Ok(())
    }

    /// Begins to look who writes.
    pub(super) async fn watch(&self) -> Result<()> {
        Ok(execute(&self.url, &[WATCH]).await?)
    }

    /// The database, for a writer of this name.
    pub(super) fn url_for(&self, name: &str) -> String {
        let before = match (self.url.contains("://"), self.url.contains('?')) {
            (false, _) => " ",
            (true, true) => "&",
            (true, false) => "?",
        };
        format!("{}{before}application_name={name}", self.url)
    }

    /// Whether every write that needs a lease was made by its holder; `who` has the processes that
    /// each name stood for. Returns how many writes there were.
    pub(super) async fn check_writes(&self, who: &[(&str, &[u32])]) -> Result<i64> {
        let mut rightful = Vec::new();
        for (name, ids) in who {
            let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
            let ids = ids.join(",");
            rightful.push(format!("(who = '{name}' AND holder IN (NULL,{ids}))"));
        }
        let rightful = rightful.join(" OR ");
        let odd = format!(
            "SELECT concat_ws(' ', who, 'wrote', what, 'and the lease was of', coalesce(holder, 'nobody')) \
             FROM torture_writes WHERE ({rightful}) IS NOT TRUE"
        );
        let odd = self.texts(&odd).await?;
        let first = odd.first().cloned().unwrap_or_default();
        ensure!(
            odd.is_empty(),
            "{} writes without a lease: {first}",
            odd.len()
        );
        self.number("SELECT count(*) FROM torture_writes").await
    }

    /// Ends the connections of all others.
    pub(super) async fn end_sessions(&self) -> Result<()> {
        const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let client = self.database.client().await?;
        // Those of this process are among them, and are made again.
        client.batch_execute("RESET ROLE").await?;
        client.query(END, &[]).await?;
        client.batch_execute("SET ROLE indexer_writer").await?;
        Ok(())
    }

    /// Blocks with rows that were dropped so far; none while the database is down.
    pub(super) async fn dropped(&self) -> Result<i64> {
        self.number("SELECT count(*) FROM dropped_blocks").await
    }

    /// One writer at a time: every change of hands is in the history, one after the other, and the
    /// holder of a lease is the last of them. Nothing is left out of what was projected. Returns how often the
    /// writer changed.
    pub(super) async fn epochs(&self) -> Result<i64> {
        const ODD: &str = "SELECT count(*) FROM ( \
            SELECT epoch <> row_number() OVER by_epoch OR at < lag(at) OVER by_epoch AS odd \
            FROM lease_history WINDOW by_epoch AS (PARTITION BY chain_id, kind ORDER BY epoch)) h WHERE odd";
        const LAST: &str = "SELECT count(*) FROM leases l WHERE epoch <> (SELECT max(epoch) \
            FROM lease_history h WHERE h.chain_id = l.chain_id AND h.kind = l.kind)";
        ensure!(
            self.number(ODD).await? == 0,
            "an epoch is missing, or came before the one before it"
        );
        ensure!(
            self.number(LAST).await? == 0,
            "a lease is of another epoch than its history"
        );
        let gaps = jobs::audit_gaps(&self.database, None).await?;
        ensure!(gaps.is_empty(), "blocks that are not projected: {gaps:?}");
        self.epochs_of("").await
    }

    /// How often a process whose name ends in this became the writer.
    pub(super) async fn epochs_of(&self, end: &str) -> Result<i64> {
        let count = "SELECT count(*) FROM lease_history WHERE kind = 'writer'";
        self.number(&format!("{count} AND holder LIKE '%{end}'"))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_another_one() {
        for (url, expected) in [
            ("postgres://u:p@h:1/d", "postgres://u:p@h:1/x"),
            ("postgres://u@h", "postgres://u@h/x"),
            (
                "postgres://u@h/d?sslmode=require",
                "postgres://u@h/x?sslmode=require",
            ),
            ("host=h dbname=d", "host=h dbname=d dbname=x"),
        ] {
            assert_eq!(with_database(url, "x"), expected);
        }
    }
}
