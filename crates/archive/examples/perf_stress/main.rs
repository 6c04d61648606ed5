//! Measures an archive at scale, beside PostgreSQL and a plain scan on the same data.
//!
//! `--help` tells how to ask; `docs/performance.md` has the figures.

mod args;
mod child;
mod ingest;
mod measure;
mod place;
mod postgres;
mod postgres_queries;
mod queries;
mod report;
mod rows;
mod scan;
mod suite;

use anyhow::Result;

fn main() -> Result<()> {
    let Some(args) = args::Args::parse(std::env::args().skip(1))? else {
        println!("{}", args::HELP);
        return Ok(());
    };
    if let Some(child) = args.child {
        return child::run(&args, child);
    }
    let results = suite::run(&args)?;
    let rows = rows::all(&args, &results);
    if args.json {
        report::print_json(&rows);
    } else {
        report::print_table(&rows);
    }
    Ok(())
}
