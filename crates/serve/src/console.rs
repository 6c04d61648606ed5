//! The console and the API description: the pages and files of the public listener.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::http::body::HeldMemory;
use crate::openapi::OPENAPI;

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

/// Files that are part of the program, with their paths.
const FILES: [File; 59] = [
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
    file("/docs", include_str!("console/docs.html")),
];

/// Every file with its path.
pub(crate) fn files() -> impl Iterator<Item = File> {
    let description = file("/openapi.json", OPENAPI);
    let pages = PAGES.into_iter().map(|path| file(path, CONSOLE));
    pages.chain(FILES).chain([description])
}

impl File {
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
        let docs = text("/docs");
        for (place, source) in [("/", CONSOLE), ("/docs", docs)] {
            for path in between(source, "href=\"", "\"")
                .into_iter()
                .chain(between(source, "src=\"", "\""))
            {
                let is_served = FILES.iter().any(|file| file.path == path);
                let is_api =
                    path.starts_with("/v1/") || ["/health", "/openapi.json"].contains(&path);
                let is_page = PAGES.contains(&path) || path.starts_with('#');
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
}
