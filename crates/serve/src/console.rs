//! The console and the API description: the pages and files of the public listener.
//!
//! Pages load their files from paths with the version of all of them, so that browsers keep these for ever; and they name
//! all their scripts, so that a browser requests none only after it has read another.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::http::body::HeldMemory;
use crate::http::caching::{Immutable, NO_STORE};
use crate::openapi::OPENAPI;
use crate::rest;

/// Pages load nothing from other hosts.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
const POLICY_NAME: HeaderName = header::CONTENT_SECURITY_POLICY;

#[derive(Clone, Copy)]
pub(crate) struct File {
    pub(crate) path: &'static str,
    text: &'static str,
}

const fn file(path: &'static str, text: &'static str) -> File {
    File { path, text }
}

/// The page that shows everything but the description of the API: its scripts read from the address what to show.
const CONSOLE: &str = include_str!("console/index.html");

/// The addresses of that page. The console's `app.js` has the same.
const PAGES: [&str; 7] = [
    "/",
    "/chains/{chainId}",
    "/chains/{chainId}/blocks/{block}",
    "/chains/{chainId}/transactions/{hash}",
    "/logs",
    "/search",
    "/projections",
];

/// The page of the description of the API.
const DOCS: &str = include_str!("console/docs.html");

/// Files that are part of the program, with their paths.
const FILES: [File; 58] = [
    file("/abi.js", include_str!("console/abi.js")),
    file("/api.js", include_str!("console/api.js")),
    file("/app.js", include_str!("console/app.js")),
    file("/block.js", include_str!("console/block.js")),
    file("/board_tables.js", include_str!("console/board_tables.js")),
    file("/boards.js", include_str!("console/boards.js")),
    file("/chain.js", include_str!("console/chain.js")),
    file("/chain_facts.js", include_str!("console/chain_facts.js")),
    file(
        "/chain_history.js",
        include_str!("console/chain_history.js"),
    ),
    file("/chain_state.js", include_str!("console/chain_state.js")),
    file("/chain_table.js", include_str!("console/chain_table.js")),
    file("/connection.js", include_str!("console/connection.js")),
    file("/console.css", include_str!("console/console.css")),
    file("/console.svg", include_str!("console/console.svg")),
    file("/coverage.js", include_str!("console/coverage.js")),
    file(
        "/dataset_coverage.js",
        include_str!("console/dataset_coverage.js"),
    ),
    file("/decoded.js", include_str!("console/decoded.js")),
    file("/docs-code.js", include_str!("console/docs-code.js")),
    file("/docs-entry.js", include_str!("console/docs-entry.js")),
    file("/docs-model.js", include_str!("console/docs-model.js")),
    file("/docs-nav.js", include_str!("console/docs-nav.js")),
    file("/docs-pages.js", include_str!("console/docs-pages.js")),
    file("/docs-request.js", include_str!("console/docs-request.js")),
    file("/docs-search.js", include_str!("console/docs-search.js")),
    file("/docs.css", include_str!("console/docs.css")),
    file("/docs.js", include_str!("console/docs.js")),
    file("/dom.js", include_str!("console/dom.js")),
    file("/endpoints.js", include_str!("console/endpoints.js")),
    file("/events.js", include_str!("console/events.js")),
    file("/header.js", include_str!("console/header.js")),
    file("/links.js", include_str!("console/links.js")),
    file("/live.js", include_str!("console/live.js")),
    file("/log_table.js", include_str!("console/log_table.js")),
    file("/logs.js", include_str!("console/logs.js")),
    file("/observed.js", include_str!("console/observed.js")),
    file("/overview.js", include_str!("console/overview.js")),
    file("/pages.css", include_str!("console/pages.css")),
    file("/poll.js", include_str!("console/poll.js")),
    file(
        "/projection_card.js",
        include_str!("console/projection_card.js"),
    ),
    file("/projections.css", include_str!("console/projections.css")),
    file("/projections.js", include_str!("console/projections.js")),
    file(
        "/projections_off.js",
        include_str!("console/projections_off.js"),
    ),
    file("/query.js", include_str!("console/query.js")),
    file("/ranges.js", include_str!("console/ranges.js")),
    file("/refusal.js", include_str!("console/refusal.js")),
    file("/reorgs.js", include_str!("console/reorgs.js")),
    file("/router.js", include_str!("console/router.js")),
    file("/samples.js", include_str!("console/samples.js")),
    file("/schemas.js", include_str!("console/schemas.js")),
    file("/search.js", include_str!("console/search.js")),
    file("/search_box.js", include_str!("console/search_box.js")),
    file(
        "/search_questions.js",
        include_str!("console/search_questions.js"),
    ),
    file("/sparkline.js", include_str!("console/sparkline.js")),
    file("/ticks.js", include_str!("console/ticks.js")),
    file("/time_chart.js", include_str!("console/time_chart.js")),
    file("/transaction.js", include_str!("console/transaction.js")),
    file("/wide.js", include_str!("console/wide.js")),
    file("/words.js", include_str!("console/words.js")),
];

/// The route of the files that pages load.
pub(crate) const ASSETS: &str = "/assets/{version}/{file}";

/// Changes with every file that pages load.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let loaded = FILES.iter().filter(|file| file.is_loaded());
    let texts: Vec<&str> = loaded.flat_map(|file| [file.path, file.text]).collect();
    let hash = blake3::hash(texts.concat().as_bytes());
    hash.to_hex().chars().take(16).collect()
});

static CONSOLE_PAGE: LazyLock<String> = LazyLock::new(|| page(CONSOLE, "/app.js"));
static DOCS_PAGE: LazyLock<String> = LazyLock::new(|| page(DOCS, "/docs.js"));

/// Every file with its path, but those under [`ASSETS`].
pub(crate) fn files() -> impl Iterator<Item = File> {
    let pages = PAGES.into_iter().map(|path| file(path, &CONSOLE_PAGE));
    let others = [file("/docs", &DOCS_PAGE), file("/openapi.json", OPENAPI)];
    pages.chain(FILES).chain(others)
}

/// Whether a route is that of a file.
pub(crate) fn is_file(route: &str) -> bool {
    route == ASSETS || files().any(|file| file.path == route)
}

/// A file that a page loads. One that a page of another version names is the one of this version, and is not kept: while
/// several nodes are upgraded, a page may come from another one than its files.
pub(crate) async fn asset(Path((version, name)): Path<(String, String)>) -> Response {
    let named = |file: &&File| file.is_loaded() && file.path.strip_prefix('/') == Some(&name);
    let Some(found) = FILES.iter().find(named) else {
        return rest::not_found().await.into_response();
    };
    let mut response = found.response();
    if version == *VERSION {
        response.extensions_mut().insert(Immutable);
    } else {
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, NO_STORE);
    }
    response
}

/// A page that loads its files from their versioned paths, and all scripts at once.
fn page(text: &str, script: &'static str) -> String {
    let versioned = |path: &str| format!("/assets/{}{path}", *VERSION);
    let mut text = text.to_owned();
    for file in FILES.iter().filter(|file| file.is_loaded()) {
        for attribute in ["href", "src"] {
            let (plain, with) = (file.path, versioned(file.path));
            text = text.replace(
                &format!("{attribute}=\"{plain}\""),
                &format!("{attribute}=\"{with}\""),
            );
        }
    }
    let imported = imports(script).into_iter().filter(|path| *path != script);
    let links: Vec<String> = imported
        .map(|path| {
            format!(
                "<link rel=\"modulepreload\" href=\"{}\">\n  ",
                versioned(path)
            )
        })
        .collect();
    let tag = "<script type=\"module\"";
    text.replacen(tag, &(links.concat() + tag), 1)
}

/// A script, and all that it imports.
fn imports(script: &'static str) -> BTreeSet<&'static str> {
    let (mut found, mut rest) = (BTreeSet::new(), vec![script]);
    while let Some(path) = rest.pop() {
        if !found.insert(path) {
            continue;
        }
        let text = FILES.iter().find(|file| file.path == path);
        let text = text
            .map(|file| file.text)
            .expect("a test follows all imports");
        let names = text.split(" from \"./").skip(1);
        let names = names.filter_map(|rest| rest.split('"').next());
        rest.extend(names.filter_map(|name| {
            let is_it = |file: &&File| file.path.strip_prefix('/') == Some(name);
            FILES.iter().find(is_it).map(|file| file.path)
        }));
    }
    found
}

impl File {
    /// Whether pages load it.
    fn is_loaded(&self) -> bool {
        [".js", ".css", ".svg"]
            .iter()
            .any(|end| self.path.ends_with(end))
    }

    pub(crate) fn response(self) -> Response {
        let kind = match self.path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css",
            Some((_, "svg")) => "image/svg+xml",
            Some((_, "json")) => "application/json",
            _ => "text/html; charset=utf-8",
        };
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
            (POLICY_NAME, POLICY),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (
                header::X_CONTENT_TYPE_OPTIONS,
                HeaderValue::from_static("nosniff"),
            ),
        ];
        let mut response = (headers, self.text).into_response();
        // The text is part of the program: an answer takes no memory for it.
        response.extensions_mut().insert(HeldMemory::default());
        response
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::keccak256;

    use super::*;

    fn text(path: &str) -> &'static str {
        let mut known = FILES.into_iter().filter(|file| file.path == path);
        known.next().unwrap().text
    }

    /// The text between two others, each time that they are there.
    fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
        let parts = text.split(start).skip(1);
        parts.filter_map(|part| part.split(end).next()).collect()
    }

    /// The types of a list of parameters: `address indexed from, uint256 value` is `address,uint256`.
    fn types(parameters: &str) -> String {
        let mut found = Vec::new();
        let mut rest = parameters;
        while !rest.is_empty() {
            let mut depth = 0_usize;
            let end = rest.find(|letter| {
                match letter {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
                letter == ',' && depth == 0
            });
            let (one, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after.trim_start_matches([',', ' ']);
            found.push(match one.strip_prefix('(') {
                None => one.split(' ').next().unwrap().to_owned(),
                Some(inner) => {
                    let (inner, suffix) = inner.rsplit_once(')').unwrap();
                    let suffix = suffix.split(' ').next().unwrap();
                    format!("({}){suffix}", types(inner))
                }
            });
        }
        found.join(",")
    }

    #[test]
    fn every_event_that_the_console_names_has_the_topic_of_its_declaration() {
        let rows = between(text("/events.js"), "\n  [\"0x", "\"],");
        assert!(rows.len() > 80, "{}", rows.len());
        for row in &rows {
            let (topic, declaration) = row.split_once("\", \"").unwrap();
            let (name, parameters) = declaration.split_once('(').unwrap();
            let parameters = parameters.strip_suffix(')').unwrap();
            let signature = format!("{name}({})", types(parameters));
            let computed = const_hex::encode(keccak256(signature.as_bytes()));
            assert_eq!(topic, computed, "{declaration} is {signature}");
        }
        let mut unique = rows.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), rows.len());
    }

    #[test]
    fn the_console_names_the_events_that_projections_decode() {
        let topics = between(text("/events.js"), "[\"0x", "\"");
        for signature in [
            "FeesCollected(address,address,uint256,uint256)",
            "FeesWithdrawn(address,address,uint256)",
            "LiFiFeesWithdrawn(address,address,uint256)",
            "FeesForwarded(address,(address,uint256)[])",
            "Upgraded(address)",
            "DataFeedsUpdated(uint256)",
        ] {
            let topic = const_hex::encode(keccak256(signature.as_bytes()));
            assert!(topics.contains(&topic.as_str()), "{signature}");
        }
    }

    /// A page at an address that its scripts do not know says that there is no such page.
    #[test]
    fn scripts_and_routes_have_the_same_pages() {
        let mut routed = between(text("/app.js"), "    [\"", "\", \"");
        routed.sort_unstable();
        let mut served = PAGES;
        served.sort_unstable();
        assert_eq!(routed, served);
    }

    /// Scripts that a script imports, and what the pages load, are files of the program.
    #[test]
    fn everything_that_a_page_loads_is_served() {
        for (place, source) in [("/", CONSOLE), ("/docs", DOCS)] {
            for path in between(source, "href=\"", "\"")
                .into_iter()
                .chain(between(source, "src=\"", "\""))
            {
                let is_served = FILES.iter().any(|file| file.path == path);
                let is_api =
                    path.starts_with("/v1/") || ["/health", "/openapi.json"].contains(&path);
                let is_page = PAGES.contains(&path) || path == "/docs" || path.starts_with('#');
                assert!(is_served || is_api || is_page, "{place} leads to {path}");
            }
        }
        for file in FILES.iter().filter(|file| file.path.ends_with(".js")) {
            for imported in between(file.text, " from \"./", "\"") {
                let path = format!("/{imported}");
                assert!(
                    FILES.iter().any(|file| file.path == path),
                    "{} imports {path}",
                    file.path
                );
            }
        }
    }

    /// Each script used to be requested only after another one that imports it had been read.
    #[test]
    fn pages_name_all_their_scripts_with_their_version() {
        for (page, script) in [(&*CONSOLE_PAGE, "/app.js"), (&*DOCS_PAGE, "/docs.js")] {
            let start = format!("href=\"/assets/{}", *VERSION);
            let mut named = between(page, "<link rel=\"modulepreload\" ", "\">");
            let paths: BTreeSet<&str> = named
                .iter_mut()
                .map(|one| one.strip_prefix(&*start).unwrap())
                .collect();
            let mut expected = imports(script);
            assert!(expected.remove(script));
            assert_eq!(paths, expected);
            assert!(paths.len() > 7, "{paths:?}");
            assert!(page.contains(&format!("src=\"/assets/{}{script}\"", *VERSION)));
            assert!(
                !page.contains("\"/console.css\"") && !page.contains(&format!("src=\"{script}\""))
            );
        }
    }

    #[tokio::test]
    async fn browsers_keep_the_files_of_this_version() {
        let kept = async |version: &str, name: &str| {
            let path = Path((version.to_owned(), name.to_owned()));
            let response = asset(path).await;
            let is_kept = response.extensions().get::<Immutable>().is_some();
            (response.status().as_u16(), is_kept)
        };
        assert_eq!(kept(&VERSION, "app.js").await, (200, true));
        assert_eq!(kept("0123456789abcdef", "app.js").await, (200, false));
        for name in ["docs", "none.js", "openapi.json"] {
            assert_eq!(kept(&VERSION, name).await, (404, false), "{name}");
        }
    }
}
