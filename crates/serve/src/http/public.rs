//! The router of the public listener: console, REST, JSON-RPC.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, Method, header};
use axum::middleware;
use axum::routing::{MethodRouter, get, post};
use tower_http::cors::{Any, CorsLayer};

use crate::chain::ServedChains;
use crate::health::Probe;
use crate::http::access::{RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::http::context::{Clock, Context};
use crate::http::finish::{Finisher, finish};
use crate::http::health::health;
use crate::http::heavy::HeavyWork;
use crate::http::limits::Limits;
use crate::http::panics;
use crate::http::request_id::REQUEST_ID;
use crate::rest::logs::NEXT_CURSOR;
use crate::rest::{
    self, blocks, chains, download, history, logs, logs_of_chains, overview, projections, ranges,
    times,
};
use crate::{console, fees, rpc};

/// Every route of the public listener. A test compares the API description with this list.
fn routes(probe: Arc<dyn Probe>) -> Vec<(&'static str, MethodRouter<Context>)> {
    let mut routes = vec![
        (
            "/{chainId}",
            post(rpc::serve).fallback(rest::chain_method_not_allowed),
        ),
        ("/v1/chains/{chainId}/rpc", post(rpc::serve)),
        ("/stellar/{network}", post(rpc::serve_stellar)),
        ("/v1/chains", get(chains::list)),
        ("/v1/chains/{chainId}", get(chains::one)),
        (
            "/v1/chains/{chainId}/block/{direction}/{time}",
            get(times::one),
        ),
        (
            "/v1/chains/{chainId}/blocks/{block}",
            get(blocks::get_block),
        ),
        (
            "/v1/chains/{chainId}/blocks/{block}/clock",
            get(blocks::get_clock),
        ),
        (
            "/v1/chains/{chainId}/transactions/{hash}",
            get(blocks::get_transaction),
        ),
        ("/v1/chains/{chainId}/logs", get(logs::get_logs)),
        (download::DOWNLOAD, get(download::download_logs)),
        ("/v1/logs", get(logs_of_chains::get_logs)),
        ("/v1/chains/{chainId}/ranges", get(ranges::get_ranges)),
        ("/v1/chains/{chainId}/history", get(history::get_history)),
        ("/v1/blocks/by-time", post(times::many)),
        ("/v1/indexing-status", get(chains::status)),
        ("/v1/overview", get(overview::get_overview)),
        ("/v1/projections", get(projections::get_projections)),
        ("/health", health(probe)),
    ];
    routes.extend(fees::routes());
    routes.push((console::ASSETS, get(console::asset)));
    let files = console::files();
    routes.extend(files.map(|file| (file.path, get(move || async move { file.response() }))));
    routes
}

/// The router of the public listener.
pub fn public_router(
    served: ServedChains,
    probe: Arc<dyn Probe>,
    limits: Limits,
    clock: Clock,
    heavy: HeavyWork,
) -> Router {
    let context = Context::new(served, limits, clock, heavy);
    let finisher = Finisher::new(context.clone());
    // The outermost first, and as one tuple: separate layers would each be boxed and cloned for every
    // request.
    let layers = (
        cross_origin(),
        middleware::from_fn_with_state(finisher, finish),
        panics::catch_panics(),
    );
    routes(probe)
        .into_iter()
        .fold(Router::new(), |router, (path, answer)| {
            router.route(path, answer)
        })
        .with_state(context)
        .fallback(rest::not_found)
        .method_not_allowed_fallback(rest::method_not_allowed)
        .layer(layers)
}

/// For how long a browser need not ask again. Chromium takes no more.
const PREFLIGHT_AGE: Duration = Duration::from_secs(7_200);

/// Pages of every origin may send what they like and read the answers: these are public, and browsers send no
/// cookies along. The headers are the same for every request, so that no answer varies with its origin.
fn cross_origin() -> CorsLayer {
    // Not every browser takes the star, and none takes it for `authorization`.
    let sent = [
        header::CONTENT_TYPE,
        header::AUTHORIZATION,
        REQUEST_ID,
        HeaderName::from_static("x-api-key"),
        HeaderName::from_static("x-client-name"),
        HeaderName::from_static("x-client-version"),
        HeaderName::from_static("*"),
    ];
    let read = [
        NEXT_CURSOR,
        REQUEST_ID,
        header::LINK,
        header::RETRY_AFTER,
        RATE_LIMIT,
        RATE_LIMIT_POLICY,
    ];
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(sent)
        .expose_headers(read)
        .max_age(PREFLIGHT_AGE)
        .vary([])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::body::Body;
    use axum::http::Request;
    use hyper_util::service::TowerToHyperService;
    use serde_json::Value;

    use super::*;
    use crate::health::ChainHealth;
    use crate::http::test_client::{fetch, send};
    use crate::rpc::{METHODS, Method};
    use crate::stellar;

    struct NoChains;

    impl Probe for NoChains {
        fn chains(&self) -> Vec<ChainHealth> {
            Vec::new()
        }
    }

    /// A probe with a bug.
    struct Broken;

    impl Probe for Broken {
        fn chains(&self) -> Vec<ChainHealth> {
            panic!("a bug with /secret/details")
        }
    }

    fn router(probe: impl Probe + 'static) -> Router {
        let served = ServedChains::new(Vec::new());
        let heavy = HeavyWork::here();
        let clock: Clock = Arc::new(|| 0);
        public_router(served, Arc::new(probe), Limits::default(), clock, heavy)
    }

    async fn fetch_path(request: &str) -> String {
        fetch(router(NoChains), request).await
    }

    fn description() -> Value {
        serde_json::from_str(crate::OPENAPI).unwrap()
    }

    fn names(object: &Value) -> impl Iterator<Item = &String> {
        object.as_object().unwrap().keys()
    }

    fn method_names() -> impl Iterator<Item = &'static str> {
        let methods = METHODS.iter().chain(&stellar::METHODS);
        methods.map(|method| method.name)
    }

    /// The methods of a route, as the router reports them.
    async fn methods(path: &str) -> Vec<String> {
        let place = path.replace(['{', '}'], "");
        let answer = fetch_path(&format!("OPTIONS {place}")).await;
        let allow = answer.lines().find_map(|line| line.strip_prefix("allow: "));
        let methods = allow.unwrap_or_default().split(',');
        let methods = methods.filter(|method| *method != "HEAD");
        methods.map(str::to_lowercase).collect()
    }

    /// Scripts, styles and images belong to their pages.
    fn is_part_of_a_page(path: &str) -> bool {
        let ends = [".js", ".css", ".svg"];
        path == console::ASSETS || ends.iter().any(|end| path.ends_with(end))
    }

    #[tokio::test]
    async fn routes_and_description_agree() {
        let mut served = BTreeSet::new();
        for (path, _) in routes(Arc::new(NoChains)) {
            for method in methods(path).await {
                if !is_part_of_a_page(path) {
                    served.insert(format!("{method} {path}"));
                }
            }
        }
        let description = description();
        let paths = description["paths"].as_object().unwrap();
        let described: BTreeSet<String> = paths
            .iter()
            .flat_map(|(path, item)| names(item).map(move |method| format!("{method} {path}")))
            .collect();
        assert_eq!(served, described);
        assert_eq!(description["openapi"], "3.1.0");
        assert_eq!(description["info"]["version"], env!("CARGO_PKG_VERSION"));
    }

    /// Schemas, parameters and answers that are named are there.
    #[test]
    fn every_reference_of_the_description_leads_somewhere() {
        let description = description();
        let text = description.to_string();
        let places: BTreeSet<&str> = text
            .split("\"$ref\":\"#")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let lost = places
            .iter()
            .filter(|place| description.pointer(place).is_none());
        assert_eq!(lost.collect::<Vec<_>>(), Vec::<&&str>::new());
        assert!(places.len() > 50, "{}", places.len());
    }

    #[test]
    fn every_method_is_described_with_an_example_and_no_other_is() {
        let description = description();
        let known: BTreeSet<&str> = method_names().collect();
        let schemas = description["components"]["schemas"].as_object().unwrap();
        let named = schemas.iter().filter_map(|(name, schema)| {
            let method = schema.pointer("/properties/method/const")?.as_str()?;
            assert_eq!(name, method);
            for part in ["x-result", "x-result-example"] {
                assert!(schema.get(part).is_some(), "{name}: {part}");
            }
            Some(method)
        });
        assert_eq!(named.collect::<BTreeSet<_>>(), known);
        let families: [(&str, &str, &[Method]); 2] = [
            ("Calls", "Call", &METHODS),
            ("StellarCalls", "StellarCall", &stellar::METHODS),
        ];
        for (body, call, methods) in families {
            let known: BTreeSet<&str> = methods.iter().map(|method| method.name).collect();
            let place = format!("/components/requestBodies/{body}/content/application~1json");
            let examples = description.pointer(&format!("{place}/examples")).unwrap();
            let examples = examples.as_object().unwrap();
            let single = examples
                .iter()
                .filter(|(_, example)| example["value"].is_object());
            let single = single.map(|(name, example)| {
                assert_eq!(example["value"]["method"], **name);
                name.as_str()
            });
            assert_eq!(single.collect::<BTreeSet<_>>(), known);
            let batch = examples["batch"]["value"].as_array().unwrap();
            let in_batch = batch.iter().map(|call| call["method"].as_str().unwrap());
            assert!(in_batch.collect::<BTreeSet<_>>().is_subset(&known));
            let one_of = schemas[call]["oneOf"].as_array().unwrap().iter();
            let one_of =
                one_of.map(|one| one["$ref"].as_str().unwrap().rsplit('/').next().unwrap());
            assert_eq!(one_of.collect::<BTreeSet<_>>(), known);
        }
    }

    /// The page shows them before anything is sent.
    #[test]
    fn every_route_has_an_example_answer() {
        let description = description();
        let paths = description["paths"].as_object().unwrap();
        let operations = paths
            .iter()
            .flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |one| (path, one)));
        let (mut shown, mut pages) = (0, 0);
        for (path, (method, operation)) in operations {
            let answers = operation["responses"]["200"]["content"]
                .as_object()
                .unwrap();
            for (kind, answer) in answers.iter().filter(|(kind, _)| *kind != "text/html") {
                assert!(answer.get("example").is_some(), "{method} {path}: {kind}");
                shown += 1;
            }
            pages += usize::from(answers.contains_key("text/html"));
        }
        // The console's, and that of the description.
        assert_eq!(pages, 8);
        assert!(shown >= paths.len() - pages, "all but the pages: {shown}");
        assert_eq!(description["servers"][0]["url"], "/");
    }

    #[test]
    fn the_document_names_every_method_and_every_error() {
        let document = include_str!("../../../../docs/api.md");
        let description = description();
        let schemas = &description["components"]["schemas"];
        let rest = &schemas["ErrorCode"]["enum"];
        let rpc = &schemas["RpcFailure"]["properties"]["code"]["enum"];
        let codes = [rest, rpc]
            .into_iter()
            .flat_map(|codes| codes.as_array().unwrap());
        let codes = codes.map(|code| code.to_string().replace('"', ""));
        let names = method_names().map(str::to_owned).chain(codes);
        let missing: Vec<String> = names.filter(|name| !document.contains(name)).collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn limits_are_described_as_they_are() {
        let description = description();
        let limits = Limits::default();
        let routes = [
            ("/components/schemas/Calls/anyOf/1/maxItems", limits.batch),
            (
                "/components/schemas/TimeLookups/properties/items/maxItems",
                limits.times,
            ),
            (
                "/components/schemas/LogFilter/properties/address/anyOf/2/maxItems",
                limits.alternatives.unwrap(),
            ),
        ];
        for (place, limit) in routes {
            let described = description.pointer(place).and_then(Value::as_u64);
            assert_eq!(described, Some(limit as u64), "{place}");
        }
        let logs = &description["paths"]["/v1/chains/{chainId}/logs"]["get"]["parameters"];
        let limit = logs
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == "limit");
        assert_eq!(limit.unwrap()["schema"]["maximum"], limits.answers.results);
    }

    #[tokio::test]
    async fn refusals_are_json_whatever_the_path_holds() {
        for (request, code, text) in [
            ("GET /v1/chains/%FF", "404", "CHAIN_NOT_FOUND"),
            ("GET /v1/chains/1/block/%FF/3", "400", "INVALID_DIRECTION"),
            ("GET /v1/chains/%FF/logs", "404", "CHAIN_NOT_FOUND"),
            ("POST /%FF", "404", "-32000"),
            ("POST /stellar/%FF", "404", "-32000"),
            ("GET /stellar/pubnet", "405", "METHOD_NOT_ALLOWED"),
            ("GET /v1/chains/1", "404", "CHAIN_NOT_FOUND"),
            ("GET /v1/nothing", "404", "NOT_FOUND"),
            ("GET /nothing", "404", "NOT_FOUND"),
            ("GET /1", "404", "NOT_FOUND"),
            ("PUT /1", "405", "METHOD_NOT_ALLOWED"),
            ("DELETE /v1/chains", "405", "METHOD_NOT_ALLOWED"),
        ] {
            let answer = fetch_path(request).await;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with(&format!("HTTP/1.1 {code}")),
                "{request}: {head}"
            );
            // Calls have the form of JSON-RPC, and routes of other documents their own.
            let is_problem = !request.starts_with("POST") && !is_fixed(request);
            let kind = match is_problem {
                true => "content-type: application/problem+json\r\n",
                false => "content-type: application/json\r\n",
            };
            assert!(head.contains(kind), "{request}: {head}");
            assert!(body.contains(text), "{request}: {body}");
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body.get("requestId").is_some(), is_problem, "{request}");
            if is_problem {
                assert_eq!(body["code"], text);
                assert_eq!(body["status"].to_string(), code);
                assert_eq!(body["error"]["code"], text, "for one release");
                assert_eq!(body["error"]["message"], body["detail"]);
            }
        }
    }

    fn is_fixed(request: &str) -> bool {
        let path = request.split(' ').nth(1).unwrap();
        path == "/v1/chains" || (path.starts_with("/v1/chains/") && !path.ends_with("/logs"))
    }

    /// A page of another origin that calls as dapps do used to fail at its preflight.
    #[tokio::test]
    async fn a_preflight_of_a_browser_is_allowed() {
        for path in [
            "/1",
            "/v1/chains/1/rpc",
            "/stellar/pubnet",
            "/v1/blocks/by-time",
            "/v1/chains",
        ] {
            // As Chromium 141 sends it for `fetch` with JSON.
            let preflight = format!(
                "OPTIONS {path} HTTP/1.1\r\nHost: node.example\r\nConnection: close\r\nAccept: */*\r\n\
                 Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type,x-client-name\r\n\
                 Origin: https://dapp.example\r\nUser-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: cors\r\n\
                 Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: empty\r\nReferer: https://dapp.example/\r\n\
                 Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB\r\n\r\n"
            );
            let answer = send(router(NoChains), &preflight).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            let values = |name: &str| {
                let start = format!("{name}: ");
                let value = answer.lines().find_map(|line| line.strip_prefix(&start));
                let values = value.unwrap_or_default().split(',').map(str::to_owned);
                values.collect::<BTreeSet<_>>()
            };
            assert!(
                values("access-control-allow-origin").contains("*"),
                "{answer}"
            );
            let methods = values("access-control-allow-methods");
            assert!(
                ["GET", "HEAD", "POST"]
                    .iter()
                    .all(|one| methods.contains(*one)),
                "{answer}"
            );
            let headers = values("access-control-allow-headers");
            for header in ["content-type", "authorization", "x-api-key", "*"] {
                assert!(headers.contains(header), "{header}: {answer}");
            }
            assert!(
                values("access-control-max-age").contains("7200"),
                "{answer}"
            );
            assert!(
                !answer.contains("access-control-allow-credentials"),
                "{answer}"
            );
        }
    }

    #[tokio::test]
    async fn a_call_from_another_origin_is_answered() {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
        let call = format!(
            "POST /1 HTTP/1.1\r\nHost: node.example\r\nConnection: close\r\nOrigin: https://dapp.example\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = send(router(NoChains), &call).await;
        assert!(
            answer.contains("access-control-allow-origin: *\r\n"),
            "{answer}"
        );
        assert!(answer.contains("-32000"), "{answer}");
    }

    /// The client was still sending when its connection was closed, and saw only that.
    #[tokio::test]
    async fn a_large_call_to_a_chain_that_is_not_served_is_answered() {
        let body = " ".repeat(12 << 20);
        let call = format!(
            "POST /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = send(router(NoChains), &call).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        assert!(answer.contains("-32000"), "{answer}");
    }

    /// A 304 had a strong tag where the compressed answer that it confirms has a weak one.
    #[tokio::test]
    async fn a_304_has_the_tag_of_the_answer_that_it_confirms() {
        use hyper::service::Service as _;
        let service = TowerToHyperService::new(router(NoChains));
        let ask = async |coding: &str, known: &str| {
            let request = Request::get("/openapi.json")
                .header(header::ACCEPT_ENCODING, coding)
                .header(header::IF_NONE_MATCH, known);
            let request = request.body(Body::empty()).unwrap();
            let answer = service.call(request).await.unwrap();
            let value = |name: HeaderName| {
                let value = answer.headers().get(name);
                value.map_or("", |value| value.to_str().unwrap()).to_owned()
            };
            let (tag, used) = (value(header::ETAG), value(header::CONTENT_ENCODING));
            (answer.status().as_u16(), tag, used)
        };
        let (_, plain, _) = ask("identity", "\"unknown\"").await;
        for coding in ["identity", "gzip", "zstd"] {
            let (status, tag, used) = ask(coding, "\"unknown\"").await;
            assert_eq!((status, &tag), (200, &plain), "{coding}");
            assert_eq!(used == coding, coding != "identity");
            let (status, confirmed, _) = ask(coding, &tag).await;
            assert_eq!((status, confirmed), (304, tag), "{coding}");
        }
    }

    #[tokio::test]
    async fn an_answer_has_the_id_of_its_request() {
        for (request, is_problem) in [
            ("GET /docs", false),
            ("GET /v1/chains", false),
            ("GET /v1/nothing", true),
            ("POST /1", false),
        ] {
            let sent = format!(
                "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: abc-123\r\n\r\n"
            );
            let answer = send(router(NoChains), &sent).await;
            assert!(answer.contains("\r\nx-request-id: abc-123\r\n"), "{answer}");
            assert_eq!(
                answer.contains(r#""requestId":"abc-123""#),
                is_problem,
                "{answer}"
            );
            let sent = sent.replace("abc-123", "two words");
            let answer = send(router(NoChains), &sent).await;
            let (_, id) = answer.split_once("\r\nx-request-id: ").unwrap();
            let id = id.lines().next().unwrap();
            assert_eq!(id.len(), 16, "{answer}");
            assert_eq!(
                answer.contains(&format!(r#""requestId":"{id}""#)),
                is_problem,
                "{answer}"
            );
        }
    }

    #[tokio::test]
    async fn every_response_has_the_common_headers() {
        let page = fetch_path("GET /docs").await;
        for header in [
            "access-control-allow-origin: *",
            "access-control-expose-headers: x-next-cursor,x-request-id,link,retry-after",
            "vary: accept-encoding",
        ] {
            assert!(page.contains(header), "{header}: {page}");
        }
        for path in ["/docs", "/v1/chains", "/v1/nothing", "/openapi.json"] {
            let answer = fetch_path(&format!("GET {path}")).await;
            let nosniff = "\r\nx-content-type-options: nosniff\r\n";
            assert_eq!(answer.matches(nosniff).count(), 1, "{path}: {answer}");
        }
    }

    #[tokio::test]
    async fn a_panic_fails_its_own_request_alone() {
        let router = router(Broken);
        let failed = fetch(router.clone(), "GET /health").await;
        assert!(failed.starts_with("HTTP/1.1 500"), "{failed}");
        assert!(failed.contains("INTERNAL_ERROR"), "{failed}");
        assert!(failed.contains("\r\nx-request-id: "), "{failed}");
        assert!(!failed.contains("secret"), "{failed}");
        let page = fetch(router, "GET /").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains("<title>Chronolith"), "{page}");
    }

    #[tokio::test]
    async fn the_page_of_the_description_loads_nothing_from_elsewhere() {
        let page = fetch_path("GET /docs").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(
            page.contains("content-security-policy: default-src 'self'"),
            "{page}"
        );
        assert!(
            !page.contains("<style") && !page.contains("style="),
            "{page}"
        );
        for part in page
            .split(['"', '\''])
            .filter(|part| is_part_of_a_page(part))
        {
            let answer = fetch_path(&format!("GET {part}")).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{part}: {answer}");
        }
    }
}
