//! The checks on the real tree. Each fails with one line a finding: where, what, and what to do.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use chronolith_tidy::{
    Finding, Tree, defaults, edges, headers, length, licences, manifests, paths, report, trace,
    words,
};

/// Asks cargo for the whole dependency tree of the platform that we build for.
fn metadata(tree: &Tree) -> Result<serde_json::Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--all-features",
        ])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(&tree.root)
        .output()
        .context("run cargo metadata")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {message}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[track_caller]
fn assert_none(findings: &[Finding]) {
    assert!(
        findings.is_empty(),
        "{} findings\n{}",
        findings.len(),
        report(findings)
    );
}

#[test]
fn crates_depend_only_along_drawn_edges() -> Result<()> {
    let tree = Tree::load()?;
    assert_none(&edges::check(&metadata(&tree)?));
    Ok(())
}

#[test]
fn dependencies_come_from_the_workspace() -> Result<()> {
    let tree = Tree::load()?;
    let crates = tree
        .with_extension("toml")
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"));
    let findings: Vec<_> = crates.flat_map(manifests::check).collect();
    assert_none(&findings);
    Ok(())
}

#[test]
fn licences_and_packages_are_allowed() -> Result<()> {
    let tree = Tree::load()?;
    let deny = tree.file("deny.toml").context("find deny.toml")?;
    let policy = licences::Policy::parse(&deny.text)?;
    let metadata = metadata(&tree)?;
    ensure!(
        edges::list(&metadata, "packages").len() > 10,
        "cargo named hardly any package"
    );
    assert_none(&licences::check(&metadata, &policy));
    Ok(())
}

#[test]
fn files_are_short() -> Result<()> {
    let tree = Tree::load()?;
    let files: Vec<_> = tree.with_extension("rs").collect();
    for file in &files {
        if let length::Verdict::Long(lines) = length::judge(file) {
            println!("note: {} has {lines} production lines", file.path);
        }
    }
    assert_none(&length::check(&files, length::EXEMPT));
    Ok(())
}

#[test]
fn files_say_what_they_are() -> Result<()> {
    let tree = Tree::load()?;
    let findings: Vec<_> = tree
        .with_extension("rs")
        .filter_map(headers::check)
        .collect();
    assert_none(&findings);
    Ok(())
}

#[test]
fn no_unfinished_work() -> Result<()> {
    let tree = Tree::load()?;
    let findings: Vec<_> = tree.files.iter().flat_map(words::check).collect();
    assert_none(&findings);
    Ok(())
}

#[test]
fn defaults_hide_no_broken_invariant() -> Result<()> {
    let tree = Tree::load()?;
    let files = tree.with_extension("rs");
    let findings: Vec<_> = files.flat_map(defaults::check).collect();
    assert_none(&findings);
    Ok(())
}

#[test]
fn documents_name_only_what_exists() -> Result<()> {
    let tree = Tree::load()?;
    let exists = |path: &str| tree.root.join(path).exists();
    let findings: Vec<_> = tree
        .with_extension("md")
        .flat_map(|file| paths::check(file, &exists))
        .collect();
    assert_none(&findings);
    Ok(())
}

#[test]
fn traceability_tables_are_complete() -> Result<()> {
    let tree = Tree::load()?;
    let load = |path: &str| tree.file(path).map(|file| file.text.clone());
    let tables: Vec<_> = tables(&tree).collect();
    ensure!(!tables.is_empty(), "docs/dev/requirements holds no table");
    for table in &tables {
        let (rows, _) = trace::rows(table);
        let open = rows
            .iter()
            .filter(|row| row.status == trace::Status::Open)
            .count();
        println!(
            "note: {}: {open} of {} rows are open",
            table.path,
            rows.len()
        );
    }
    let findings: Vec<_> = tables
        .into_iter()
        .flat_map(|table| trace::check(table, &load))
        .collect();
    assert_none(&findings);
    Ok(())
}

#[test]
fn traceability_tables_hold_every_line_of_their_requirement() -> Result<()> {
    let tree = Tree::load()?;
    let Some(shared) = tree.shared() else {
        let required = std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_some_and(|v| v == "1");
        ensure!(
            !required,
            "../shared is absent and CHRONOLITH_REQUIRE_FIXTURES=1"
        );
        println!("skipped: ../shared is absent, requirements not compared");
        return Ok(());
    };
    for table in tables(&tree) {
        let name = table.path.trim_start_matches("docs/dev/requirements/");
        let path = shared.join("requirements").join(name);
        let requirement = std::fs::read_to_string(&path)
            .with_context(|| format!("load the requirement of {}", table.path))?;
        let required = trace::required_items(&requirement);
        let listed = trace::listed_items(table);
        let missing: Vec<_> = required.difference(&listed).collect();
        // Where a requirement numbers nothing, its table has items of its own.
        let ours = required.is_empty();
        let unknown = listed.difference(&required).filter(|_| !ours);
        let unknown: Vec<_> = unknown.collect();
        assert!(
            missing.is_empty() && unknown.is_empty(),
            "{}: not listed {missing:?}, not in the requirement {unknown:?}",
            table.path
        );
    }
    Ok(())
}

fn tables(tree: &Tree) -> impl Iterator<Item = &chronolith_tidy::TextFile> {
    tree.with_extension("md")
        .filter(|file| file.path.starts_with("docs/dev/requirements/"))
}
