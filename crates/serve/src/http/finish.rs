//! What happens to every answer of the public listener before it is sent: a time limit, what caches need, memory until
//! the client has read it, the id of the request, the form of errors, a length for old clients, and compression.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::access;
use super::answer_memory::MemoryReservation;
use super::body::HeldMemory;
use super::caching::Conditions;
use super::compress::{Coding, Compressor};
use super::context::Context;
use super::request_body::TINY_BYTES;
use super::request_id::{REQUEST_ID, RequestIds};
use crate::error::{ApiError, ErrorCode, Limit};
use crate::fault::Fault;
use crate::problem;
use crate::rest::download::DOWNLOAD;

/// How long any response may take to begin. Queries have their own, far lower limits.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// How long an answer for HTTP/1.0 may take until all of it is there. It holds memory meanwhile, and one of any length
/// may wait for that of others.
const GATHER_TIMEOUT: Duration = Duration::from_secs(5);
/// How many of them are gathered at a time, and up to how many bytes: together they leave most of the memory to others.
const GATHERS: usize = 2;
/// Downloads among them: they take all the time that there is, and must leave a place.
const GATHERED_DOWNLOADS: usize = 1;
/// How long an answer waits for its place.
const GATHER_WAIT: Duration = Duration::from_secs(1);
const GATHERED_BYTES_MAX: usize = 16 << 20;

/// Routes whose errors are an object with a code and a message, for the clients that they were made for.
const FIXED_ERRORS: [&str; 6] = [
    "/fees",
    "/fees/totals",
    "/v1/chains",
    "/v1/chains/{chainId}",
    "/v1/chains/{chainId}/block/{direction}/{time}",
    "/v1/indexing-status",
];

pub(super) fn is_fixed(route: &str) -> bool {
    FIXED_ERRORS.contains(&route)
}

/// What answers need before they are sent.
pub(crate) struct Finisher {
    context: Context,
    compressor: Compressor,
    ids: RequestIds,
    /// Answers for HTTP/1.0 that are gathered, and downloads among them.
    gathers: Semaphore,
    gathered_downloads: Semaphore,
}

pub(crate) async fn finish(
    State(finisher): State<Arc<Finisher>>,
    request: Request,
    next: Next,
) -> Response {
    let (version, coding) = (request.version(), Coding::of(request.headers()));
    let conditions = Conditions::of(&request);
    let id = finisher.ids.of(request.headers());
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map(MatchedPath::as_str);
    let fixed_errors = path.is_some_and(is_fixed);
    let started = Instant::now();
    let response = match timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s: request less", TIMEOUT.as_secs());
            ApiError::new(ErrorCode::Timeout, message).into_response()
        }
    };
    let mut response = conditions.apply(response).await;
    if version < Version::HTTP_11 {
        response = match finisher.with_length(path, response).await {
            Ok(response) => response,
            // Caches must not keep it.
            Err(error) => conditions.apply(error.into_response()).await,
        };
    }
    response = match counted(&finisher.context, response).await {
        Ok(response) => response,
        Err(error) => conditions.apply(access::of_route(path, &error)).await,
    };
    let error = response.extensions_mut().remove::<ApiError>();
    if let Some(error) = error.filter(|_| !fixed_errors) {
        problem::render(&mut response, &error, &id);
    }
    add_headers(&mut response, id);
    let meters = &finisher.context.requests;
    meters.answered(path, response.status(), started.elapsed());
    if version < Version::HTTP_11 {
        return response;
    }
    finisher.compressor.apply(response, coding)
}

/// After this many seconds a client may try again, where its answer does not say.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

pub(super) fn add_headers(response: &mut Response, id: HeaderValue) {
    let is_later = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    if is_later && !headers.contains_key(header::RETRY_AFTER) {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
    }
}

/// The answer, counted until the client has read it. Large ones are counted since they were made, and tiny ones take no
/// more than the requests.
async fn counted(context: &Context, response: Response) -> Result<Response, ApiError> {
    // Parts of an answer without a length are counted by who makes them.
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let is_counted = response.extensions().get::<HeldMemory>().is_some();
    if is_counted || bytes <= TINY_BYTES {
        return Ok(response);
    }
    let mut reservation = MemoryReservation::default();
    context.grow_for(&mut reservation, bytes).await?;
    let (mut parts, body) = response.into_parts();
    // A body with a length is one buffer: nothing is copied, and nothing is waited for.
    let Ok(whole) = to_bytes(body, usize::MAX).await else {
        let message = "the answer failed before its end: retry";
        return Err(ApiError::new(ErrorCode::Internal, message));
    };
    let held = HeldMemory::new(reservation);
    parts.extensions.insert(held.clone());
    Ok(Response::from_parts(parts, Body::from(held.hold(whole))))
}

impl Finisher {
    pub(crate) fn new(context: Context) -> Arc<Self> {
        Arc::new(Self {
            compressor: Compressor::new(context.heavy.clone()),
            context,
            ids: RequestIds::default(),
            gathers: Semaphore::new(GATHERS),
            gathered_downloads: Semaphore::new(GATHERED_DOWNLOADS),
        })
    }

    /// The answer of a route with its length. Without one, the end of an HTTP/1.0 connection is the end of the answer: one
    /// that is cut would look whole.
    async fn with_length(
        &self,
        path: Option<&str>,
        response: Response,
    ) -> Result<Response, ApiError> {
        if response.body().size_hint().exact().is_some() {
            return Ok(response);
        }
        let places = async {
            let download = match path {
                Some(DOWNLOAD) => Some(self.gathered_downloads.acquire().await),
                _ => None,
            };
            (download, self.gathers.acquire().await)
        };
        let places = timeout(GATHER_WAIT, places).await;
        let _places = places.map_err(|_| ApiError::from(Fault::Busy))?;
        let gathered = timeout(GATHER_TIMEOUT, self.gathered(response)).await;
        gathered.unwrap_or_else(|_| Err(self.too_long_for_1_0()))
    }

    async fn gathered(&self, response: Response) -> Result<Response, ApiError> {
        let (mut parts, body) = response.into_parts();
        let mut chunks = body.into_data_stream();
        let (mut whole, mut held) = (Vec::new(), MemoryReservation::default());
        while let Some(chunk) = chunks.next().await {
            let Ok(chunk) = chunk else {
                let message = "the answer failed before its end: retry";
                return Err(ApiError::new(ErrorCode::Internal, message));
            };
            let bytes = whole.len() + chunk.len();
            if bytes > self.gathered_max() {
                return Err(self.too_long_for_1_0());
            }
            self.context.grow(&mut held, bytes).await?;
            whole.extend_from_slice(&chunk);
        }
        whole.shrink_to_fit();
        let held = HeldMemory::new(held);
        parts.extensions.insert(held.clone());
        Ok(Response::from_parts(parts, Body::from(held.hold(whole))))
    }

    fn gathered_max(&self) -> usize {
        self.context.limits.answer_bytes.min(GATHERED_BYTES_MAX)
    }

    fn too_long_for_1_0(&self) -> ApiError {
        let message = "the answer is too long for HTTP/1.0: use HTTP/1.1 (in nginx: proxy_http_version 1.1), or request less";
        ApiError::over(Limit::ResponseBytes, self.gathered_max() as u64, message)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Json, Router, middleware};
    use futures::stream;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::task::JoinSet;

    use super::*;
    use crate::chain::ServedChains;
    use crate::console;
    use crate::http::body::ResponseBody;
    use crate::http::drain::drain;
    use crate::http::heavy::HeavyWork;
    use crate::http::limits::Limits;
    use crate::http::listener::{ConnectionLimits, listen};

    /// Bytes of an answer, and how many of them the memory for small ones holds.
    const BYTES: usize = 50 << 10;
    const ANSWERS: usize = 8;

    async fn plain() -> Json<String> {
        Json("x".repeat(BYTES - 2))
    }

    /// An answer that is counted where it is made.
    async fn held(State(context): State<Context>) -> Result<Response, ApiError> {
        let mut held = MemoryReservation::default();
        context.grow(&mut held, BYTES).await?;
        let mut body = ResponseBody::default();
        body.hold(held);
        body.text(&vec![b'x'; BYTES]);
        Ok(body.into_response())
    }

    fn context() -> Context {
        let limits = Limits {
            unread_bytes: ANSWERS * BYTES * 4,
            ..Limits::default()
        };
        let served = ServedChains::new(Vec::new());
        Context::new(served, limits, Arc::new(|| 0), HeavyWork::here())
    }

    fn router() -> Router {
        router_of(context())
    }

    fn router_of(context: Context) -> Router {
        let finisher = Finisher::new(context.clone());
        let file = console::files().last().unwrap();
        Router::new()
            .route("/plain", get(plain))
            .route("/fees", get(plain))
            .route("/held", get(held))
            .route("/file", get(move || async move { file.response() }))
            .with_state(context)
            .layer(middleware::from_fn_with_state(finisher, finish))
    }

    async fn ask(router: &Router, path: &str, (name, value): (&str, &str)) -> Response {
        let request = Request::builder().uri(path).header(name, value);
        let request = request.body(Body::empty()).unwrap();
        let service = TowerToHyperService::new(router.clone());
        service.call(request).await.unwrap()
    }

    /// Plain JSON used to be counted nowhere: connections that requested it and read nothing took any amount.
    #[tokio::test(start_paused = true)]
    async fn answers_count_until_they_are_read_and_once() {
        for path in ["/plain", "/fees", "/held"] {
            for coding in ["identity", "gzip"] {
                let (router, coding) = (router(), ("accept-encoding", coding));
                let mut unread = Vec::new();
                for _ in 0..ANSWERS {
                    let answer = ask(&router, path, coding).await;
                    assert_eq!(answer.status(), StatusCode::OK, "{path} {coding:?}");
                    unread.push(answer);
                }
                let refused = ask(&router, path, coding).await;
                assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
                assert_eq!(refused.headers()[header::CACHE_CONTROL], "no-store");
                assert!(refused.headers().contains_key(header::RETRY_AFTER));
                let text = to_bytes(refused.into_body(), usize::MAX).await.unwrap();
                let error: Value = serde_json::from_slice(&text).unwrap();
                match path {
                    "/fees" => assert!(error["error"].is_string(), "{error}"),
                    _ => assert_eq!(error["code"], json!("BUSY"), "{path}"),
                }
                unread.pop();
                let answer = ask(&router, path, coding).await;
                assert_eq!(answer.status(), StatusCode::OK, "{path} {coding:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_of_the_program_and_confirmations_need_no_memory() {
        let router = router();
        let nothing = ("accept", "*/*");
        let mut unread = Vec::new();
        for _ in 0..ANSWERS {
            unread.push(ask(&router, "/plain", nothing).await);
        }
        for _ in 0..ANSWERS {
            let file = ask(&router, "/file", nothing).await;
            assert_eq!(file.status(), StatusCode::OK);
            unread.push(file);
        }
        let tag = unread[0].headers()[header::ETAG].to_str().unwrap();
        let confirmed = ask(&router, "/plain", ("if-none-match", tag)).await;
        assert_eq!(confirmed.status(), StatusCode::NOT_MODIFIED);
    }

    /// An answer that took long, such as a download, held its memory as long: two old clients kept all others from large
    /// answers for minutes.
    #[tokio::test(start_paused = true)]
    async fn an_answer_for_http_1_0_is_there_soon_or_refused() {
        let endless = || async {
            let begun = stream::iter([Ok::<_, axum::Error>("x".repeat(BYTES))]);
            Body::from_stream(begun.chain(stream::pending()))
        };
        let finisher = Finisher::new(context());
        let short =
            || async { Body::from_stream(stream::iter([Ok::<_, axum::Error>("x".repeat(BYTES))])) };
        let router = Router::new()
            .route("/endless", get(endless))
            .route(DOWNLOAD, get(endless))
            .route("/short", get(short));
        let router = router.layer(middleware::from_fn_with_state(finisher, finish));
        let ask = async |path: &str| {
            let request = Request::builder().uri(path).version(Version::HTTP_10);
            let service = TowerToHyperService::new(router.clone());
            let answer = service.call(request.body(Body::empty()).unwrap()).await;
            answer.unwrap().status()
        };
        let began = Instant::now();
        let (one, other, short) = tokio::join!(ask("/endless"), ask("/endless"), ask("/short"));
        assert_eq!([one, other], [StatusCode::UNPROCESSABLE_ENTITY; 2]);
        assert_eq!(short, StatusCode::SERVICE_UNAVAILABLE, "it may be repeated");
        assert_eq!(began.elapsed(), GATHER_TIMEOUT);
        // One of two downloads waits, so that others are answered.
        let (one, other, short) = tokio::join!(ask(DOWNLOAD), ask(DOWNLOAD), ask("/short"));
        let refused = [
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        assert_eq!([one, other], refused);
        assert_eq!(short, StatusCode::OK);
    }

    /// Clients that read nothing held the memory of small answers until they were cut for that, half a minute later:
    /// everybody else was refused meanwhile.
    #[tokio::test(flavor = "multi_thread")]
    async fn slow_readers_are_cut_where_others_need_their_memory() {
        const WITHIN: Duration = Duration::from_secs(20);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ConnectionLimits {
            connections: 100,
            per_peer: None,
            place_kept: None,
        };
        let (_drainer, drain) = drain();
        let mut listening = JoinSet::new();
        let context = context();
        listening.spawn(listen(listener, router_of(context.clone()), limits, drain));
        let request = "GET /plain HTTP/1.1\r\nhost: x\r\n\r\n";
        let mut unread = Vec::new();
        for _ in 0..ANSWERS {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(16 << 10).unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            // More than the system buffers.
            let requests = request.repeat(200);
            stream.write_all(requests.as_bytes()).await.unwrap();
            unread.push(stream);
        }
        let is_answered = async {
            let mut status = [0; 12];
            while status != *b"HTTP/1.1 200" {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                stream.read_exact(&mut status).await.unwrap();
            }
        };
        // Not only until the system's buffers are full.
        let is_short = async {
            let mut since = Instant::now();
            while since.elapsed() < Duration::from_millis(500) {
                if context.try_grow(&mut MemoryReservation::default(), BYTES) {
                    since = Instant::now();
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(WITHIN, is_short).await.unwrap();
        timeout(WITHIN, is_answered).await.unwrap();
        drop(unread);
    }
}
