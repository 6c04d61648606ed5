//! The same filters as SQL.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_model::{Clause, LogFilter, Select};
use chronolith_sim::QueryClass;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::measure::{self, Answer, TimeBox, Times};
use crate::queries::Measured;

/// A class may take so long, and so many queries.
const CLASS_TIME: Duration = Duration::from_secs(12);
const QUERIES_MAX: usize = 400;

/// Planner settings that are tried for each class; the fastest median counts.
const PLANS: [(&str, &str); 2] = [
    ("the planner's choice", "RESET ALL"),
    (
        "bitmap scans only",
        "SET enable_indexscan = off; SET enable_seqscan = off",
    ),
];

/// A value of a statement.
#[derive(Debug)]
enum Value {
    Number(i64),
    One(Vec<u8>),
    Many(Vec<Vec<u8>>),
}

impl Value {
    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Number(number) => number,
            Self::One(bytes) => bytes,
            Self::Many(list) => list,
        }
    }
}

/// What a class came to.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) times: Times,
    /// Which of the plans it was.
    pub(crate) plan: &'static str,
}

/// A connection with its prepared statements.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
    /// Every plan in full.
    pub(crate) plans: String,
}

impl Session {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            statements: HashMap::new(),
            plans: String::new(),
        }
    }

    /// Asks a filter and returns its rows, unread.
    pub(crate) async fn ask(&mut self, filter: &LogFilter) -> Result<Vec<Row>> {
        let (sql, values) = statement(filter)?;
        let statement = match self.statements.entry(sql) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let prepared = self.client.prepare(new.key()).await;
                new.insert(prepared.context("prepare")?)
            }
        };
        let values: Vec<_> = values.iter().map(Value::as_sql).collect();
        Ok(self.client.query(statement, &values).await?)
    }

    /// The plan for a filter, one line each step.
    async fn explain(&self, filter: &LogFilter) -> Result<Vec<String>> {
        let (sql, values) = statement(filter)?;
        let values: Vec<_> = values.iter().map(Value::as_sql).collect();
        let explain = format!("EXPLAIN (COSTS OFF) {sql}");
        let lines = self.client.query(&explain, &values).await?;
        let line = |row: &Row| row.try_get::<_, String>(0);
        Ok(lines.iter().map(line).collect::<Result<_, _>>()?)
    }

    /// Asks all classes and compares each answer with ours. Prints the plans.
    pub(crate) async fn run(
        &mut self,
        filters: &BTreeMap<QueryClass, Vec<LogFilter>>,
        ours: &BTreeMap<QueryClass, Measured>,
    ) -> Result<BTreeMap<QueryClass, Asked>> {
        let mut asked = BTreeMap::new();
        for (&class, filters) in filters {
            let (Some(first), Some(ours)) = (filters.first(), ours.get(&class)) else {
                continue;
            };
            let mut best: Option<Asked> = None;
            for (plan, settings) in PLANS {
                self.client.batch_execute(settings).await?;
                // Plans are kept with the statement.
                self.statements.clear();
                let steps = self.explain(first).await?;
                let name = class.name();
                eprintln!("  {name}, {plan}: {}", shorten(&steps));
                self.plans += &format!("{name}, {plan}\n{}\n\n", steps.join("\n"));
                let times = self.class(class, filters, &ours.answers).await?;
                let median = |times: &Times| times.percentile(50).unwrap_or(f64::MAX);
                if best
                    .as_ref()
                    .is_none_or(|best| median(&times) < median(&best.times))
                {
                    best = Some(Asked { times, plan });
                }
            }
            self.client.batch_execute("RESET ALL").await?;
            self.statements.clear();
            asked.extend(best.map(|best| (class, best)));
        }
        Ok(asked)
    }

    async fn class(
        &mut self,
        class: QueryClass,
        filters: &[LogFilter],
        ours: &[Answer],
    ) -> Result<Times> {
        // Warmed up with the last ones, which are not asked again.
        let time = TimeBox::new(CLASS_TIME / 4);
        for (done, filter) in filters.iter().rev().take(QUERIES_MAX / 4).enumerate() {
            if !time.allows(done) {
                break;
            }
            self.ask(filter).await?;
        }
        let time = TimeBox::new(CLASS_TIME);
        let mut micros = Vec::new();
        for (filter, ours) in filters.iter().zip(ours).take(QUERIES_MAX) {
            if !time.allows(micros.len()) {
                break;
            }
            let began = Instant::now();
            let rows = self.ask(filter).await?;
            let answer = read(&rows)?;
            micros.push(measure::micros(began.elapsed()));
            ensure!(
                answer == *ours,
                "the answers differ ({}): the archive has {ours:?}, PostgreSQL {answer:?} for \
                 {filter:?}",
                class.name()
            );
        }
        Ok(Times::new(micros))
    }
}

/// Takes every field out of the rows.
pub(crate) fn read(rows: &[Row]) -> Result<Answer> {
    let mut answer = Answer::default();
    let mut bytes = 0;
    for row in rows {
        let (block, timestamp): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let (log_index, tx_index): (i32, i32) = (row.try_get(2)?, row.try_get(3)?);
        for column in 4..row.len() {
            let field: Option<&[u8]> = row.try_get(column)?;
            bytes += field.map_or(0, <[u8]>::len);
        }
        std::hint::black_box((timestamp, tx_index));
        answer.add(block as u64, log_index as u32);
    }
    std::hint::black_box(bytes);
    Ok(answer)
}

/// A filter as a statement and its values.
fn statement(filter: &LogFilter) -> Result<(String, Vec<Value>)> {
    let Select::Range(range) = filter.select else {
        bail!("a filter without a range");
    };
    let mut values = vec![
        Value::Number(i64::try_from(range.start)?),
        Value::Number(i64::try_from(range.end)?),
    ];
    let mut wanted = String::from("block >= $1 AND block < $2");
    let mut add = |column: &str, clause: &Clause| {
        let Clause::OneOf(list) = clause else {
            return;
        };
        let place = values.len() + 1;
        match list.as_slice() {
            [one] => {
                wanted.push_str(&format!(" AND {column} = ${place}"));
                values.push(Value::One(one.to_vec()));
            }
            many => {
                wanted.push_str(&format!(" AND {column} = ANY(${place})"));
                let many = many.iter().map(|value| value.to_vec()).collect();
                values.push(Value::Many(many));
            }
        }
    };
    add("address", &filter.emitters);
    for (column, clause) in ["topic0", "topic1", "topic2", "topic3"]
        .iter()
        .zip(&filter.topics)
    {
        add(column, clause);
    }
    if let (Some(Clause::Any), Some(last)) =
        (filter.topics.last(), filter.topics.len().checked_sub(1))
    {
        wanted.push_str(&format!(" AND topic{last} IS NOT NULL"));
    }
    let limit = filter.limit.context("a filter without a limit")?;
    values.push(Value::Number(i64::try_from(limit)?));
    let sql = format!(
        "SELECT block, timestamp, log_index, tx_index, tx_hash, address, topic0, topic1, topic2, \
         topic3, data FROM logs WHERE {wanted} ORDER BY block, log_index LIMIT ${}",
        values.len()
    );
    Ok((sql, values))
}

/// The steps of a plan without the values that they look for.
fn shorten(plan: &[String]) -> String {
    let steps = plan
        .iter()
        .map(|line| line.trim().trim_start_matches("->").trim());
    let named = |step: &&str| step.contains("Scan") || !step.contains(':');
    steps.filter(named).collect::<Vec<_>>().join(" < ")
}
