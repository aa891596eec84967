//! Passes the requests over HTTP that a follower gets on to the leader, one by one: on the same
//! connection, a client can ask about this node, and about the jobs that only the leader serves.
//!
//! **Rights.** The leader serves a passed request like one from another machine: a client needs a
//! token, a session or a certificate. It makes no difference that the client is on the machine of
//! the follower, or at a unix socket there: the role of clients without credentials is for people
//! who can sign in to the leader's machine, and these are others. The follower tells the leader the
//! address, whether the client speaks TLS, and which certificate it has shown. Nodes believe each
//! other this, because each of them has all jobs anyway.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::{Problem, ProblemKind};
use axum::body::Body;
use http_api::{LongResponse, PassOn, Peer, Request, TEXT, answer, complete};
use hyper::client::conn::http1::handshake;
use hyper::header::{
    CONNECTION, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{HeaderMap, Response, Uri, Version};
use hyper_util::rt::TokioIo;
use origin::Gate;

use crate::cluster::line::{HttpClient, Purpose};
use crate::cluster::peers::{Peers, Shared};

/// A request that comes while nobody leads waits this long. People look at an empty page meanwhile.
const LEADER_MAX: Duration = Duration::from_secs(5);

/// Headers that are about one connection, not about a request or a response.
const OF_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    EXPECT,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

impl Peers {
    /// How a follower answers requests that are for the leader.
    pub(crate) fn pass_http_on(&self) -> PassOn {
        let shared = self.shared.clone();
        Box::new(move |request| {
            let shared = shared.clone();
            Box::pin(async move {
                let path = request.uri().path().to_owned();
                pass(shared, request).await.unwrap_or_else(|failure| failure.response(&path))
            })
        })
    }
}

/// Why a client gets no response of the leader.
#[derive(Debug)]
enum Failure {
    /// The leader did not get the request, or the request changes nothing.
    Unsent(io::Error),
    /// The leader may have done what the request asks for.
    Unknown(io::Error),
}

async fn pass(shared: Arc<Shared>, request: Request) -> Result<Response<Body>, Failure> {
    let purpose = Purpose::Http(client_of(&request));
    let opened = shared.open_link(&purpose, LEADER_MAX).await;
    let (link, leader) = opened.map_err(Failure::Unsent)?;
    let replaced = async move { shared.replaced(leader).await };
    ask(TokioIo::new(link), request, replaced).await
}

/// Sends a request over a link. `replaced` ends when the other side does not lead any more.
async fn ask(
    link: impl hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    request: Request,
    replaced: impl Future<Output = ()> + Send + 'static,
) -> Result<Response<Body>, Failure> {
    let opened = handshake(link).await.map_err(io::Error::other);
    let (mut sender, connection) = opened.map_err(Failure::Unsent)?;
    tokio::spawn(async move {
        tokio::select! {
            // The request or its response shows the error.
            _ = connection => {}
            () = replaced => {}
        }
    });
    let is_safe = request.method().is_safe();
    let response = sender.try_send_request(passed(request)).await.map_err(|mut error| {
        // A request that comes back was not sent.
        let is_sent = error.take_message().is_none();
        let error = io::Error::other(error.into_error());
        if is_sent && !is_safe { Failure::Unknown(error) } else { Failure::Unsent(error) }
    })?;
    let mut response = response.map(Body::new);
    drop_headers_of_connection(response.headers_mut());
    // The leader limits how long it lasts.
    response.extensions_mut().insert(LongResponse);
    Ok(response)
}

/// The client of a request, as the leader should know it.
fn client_of(request: &Request) -> HttpClient {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let gate = request.extensions().get::<Gate>();
    let host = request.headers().get(HOST).zip(gate);
    let host = host.and_then(|(host, gate)| gate.names.name_in(host.as_bytes()));
    HttpClient {
        address: peer.address,
        is_tls: peer.is_tls,
        certificate: peer.certificate,
        host: host.map(str::to_owned),
    }
}

/// The request, as this node sends it.
fn passed(request: Request) -> Request {
    let (mut head, body) = request.into_parts();
    drop_headers_of_connection(&mut head.headers);
    // A client may name the server here, too, as for a proxy.
    if let Some(path) = head.uri.path_and_query().cloned() {
        head.uri = Uri::from(path);
    }
    head.version = Version::HTTP_11;
    Request::from_parts(head, body)
}

fn drop_headers_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(',').filter_map(|name| name.trim().parse().ok()))
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}

impl Failure {
    fn response(self, path: &str) -> Response<Body> {
        let (kind, why) = match self {
            Failure::Unsent(error) if error.kind() == io::ErrorKind::NotConnected => {
                let why = "no node of the cluster leads at this moment; try again".to_owned();
                (ProblemKind::Unavailable, why)
            }
            Failure::Unsent(error) => {
                let why =
                    format!("the node that leads the cluster does not answer: {error}; try again");
                (ProblemKind::Unavailable, why)
            }
            Failure::Unknown(error) => {
                let why = format!(
                    "the node that leads the cluster got the request, and does not answer: {error}; perhaps the \
                     request was carried out, so look before you send it again"
                );
                (ProblemKind::UnknownOutcome, why)
            }
        };
        if path.starts_with(api::PREFIX) {
            return Problem::new(kind, why).at(path);
        }
        complete(answer(kind.status(), TEXT, why + "\n"))
    }
}

#[cfg(test)]
mod tests {
    use origin::{Names, Reach};
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[test]
    fn a_request_loses_what_is_about_its_connection() {
        let request = hyper::Request::builder()
            .method("POST")
            .uri("http://follower.example/api/v1/queues/a%2Fb?x=1")
            .version(Version::HTTP_10)
            .header("Host", "follower.example")
            .header("Connection", "close, X-Mine")
            .header("X-Mine", "1")
            .header("Keep-Alive", "timeout=5")
            .header("Expect", "100-continue")
            .header("Transfer-Encoding", "chunked")
            .header("Authorization", "Bearer x")
            .body(Body::from("body"))
            .unwrap();
        let request = passed(request);
        assert_eq!(request.uri(), "/api/v1/queues/a%2Fb?x=1");
        assert_eq!(request.version(), Version::HTTP_11);
        let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["host", "authorization"]);
    }

    /// The status that a client gets if the leader ends after `read` bytes of the request.
    async fn status_after(method: &str, read: usize) -> u16 {
        let (near, mut far) = tokio::io::duplex(1024);
        let request = hyper::Request::builder().method(method).uri("/api/v1/queues/a");
        let request = request.body(Body::empty()).unwrap();
        let leader = async {
            far.read_exact(&mut vec![0; read]).await.unwrap();
            drop(far);
        };
        let replaced = std::future::pending();
        let (asked, ()) = tokio::join!(ask(TokioIo::new(near), request, replaced), leader);
        asked.unwrap_err().response("/api/v1/queues/a").status().as_u16()
    }

    #[tokio::test]
    async fn a_change_whose_outcome_is_unknown_is_not_to_be_repeated() {
        assert_eq!(status_after("POST", 30).await, 502);
        assert_eq!(status_after("GET", 30).await, 503, "it changes nothing");
        let never = Failure::Unsent(io::ErrorKind::NotConnected.into());
        assert_eq!(never.response("/console").status(), 503);
    }

    #[test]
    fn the_leader_knows_the_client() {
        let mut request =
            hyper::Request::builder().header("Host", "Follower:7300").body(Body::empty()).unwrap();
        let names = Arc::new(Names::new(["follower".to_owned()], Vec::new()));
        request.extensions_mut().insert(Gate { names, reach: Reach::Loopback });
        let address = Some([192, 0, 2, 7].into());
        let certificate = Some([3; 32]);
        let peer = Peer { address, is_tls: true, certificate, ..Peer::default() };
        request.extensions_mut().insert(peer);
        let host = Some("Follower".to_owned());
        let client = HttpClient { address, is_tls: true, certificate, host };
        assert_eq!(client_of(&request), client);
        request.headers_mut().insert(HOST, "evil.example".parse().unwrap());
        assert_eq!(client_of(&request).host, None);
    }
}
