//! A client of the server's HTTP API, for the operator's commands.
//!
//! A command sends one request after the other over one connection. If the server closed the
//! connection meanwhile, the client connects again.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use api::Problem;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use notation::address::Address;
use serde::de::DeserializeOwned;
use serde_json::Value;
use server::ControlPath;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

use super::error::{CONNECT_TIMEOUT, PATIENCE, plain_reason};
use super::target::Target;

/// The longest reply that a command reads.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// The prefix of all paths of the API.
const PREFIX: &str = "/api/v1";
/// A connection that was idle for longer is not used again. The server closes idle connections after
/// five seconds.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// A connection that is older is not used again, even if it was never idle. The server closes
/// connections that are five minutes old: see `AGE_MAX` in `connection.rs` of the crate `http`. The
/// client cannot notice it, because its runtime does not run between two requests.
const AGE_MAX: Duration = Duration::from_mins(4);

/// An error of a request to the API.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The tool could not connect.
    #[error(
        "cannot connect to {address}: {reason}; is the server running, and does it listen for HTTP? \
         name its HTTP address with --http"
    )]
    Unreachable {
        /// The address as the user gave it.
        address: String,
        /// The reason.
        reason: String,
    },
    /// The connection broke.
    #[error("the connection to {address} broke: {reason}")]
    Broken {
        /// The address as the user gave it.
        address: String,
        /// The reason.
        reason: String,
    },
    /// The server refused the request.
    #[error("{}{}", .0.detail, credentials_hint(.0.status))]
    Refused(Box<Problem>),
    /// The reply is not one of the API.
    #[error(
        "{address} is not the HTTP address of a Lineshaft server of this version: it answered {status}"
    )]
    NotTheApi {
        /// The address as the user gave it.
        address: String,
        /// The status of the reply.
        status: StatusCode,
    },
    /// The token cannot be part of a request.
    #[error("the token has characters that no token has")]
    Token,
}

fn credentials_hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "; name a token with --token-file or LINESHAFT_TOKEN",
        _ => "",
    }
}

/// A connection to the API.
#[derive(Debug)]
pub(crate) struct ApiClient {
    runtime: Runtime,
    target: Target,
    authorization: Option<HeaderValue>,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// When the client connected.
    opened_at: Instant,
    /// When the connection was last used.
    used_at: Instant,
    /// The address of a socket in a data folder is valid only while this value exists.
    _socket: Option<ControlPath>,
}

impl ApiClient {
    /// A client of this server. It connects when it sends the first request.
    pub(crate) fn new(target: Target, token: Option<&str>) -> Result<ApiClient, ApiError> {
        let authorization = match token {
            None => None,
            Some(token) => {
                let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
                let mut header = header.map_err(|_| ApiError::Token)?;
                header.set_sensitive(true);
                Some(header)
            }
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ApiError::Unreachable {
            address: target.to_string(),
            reason: plain_reason(&error),
        })?;
        let now = Instant::now();
        Ok(ApiClient {
            runtime,
            target,
            authorization,
            sender: None,
            opened_at: now,
            used_at: now,
            _socket: None,
        })
    }

    /// A client of the server with this socket in its data folder.
    pub(crate) fn at_socket(
        socket: ControlPath,
        token: Option<&str>,
    ) -> Result<ApiClient, ApiError> {
        let target = Target::plain(Address::Unix(socket.path().to_owned()));
        let client = ApiClient::new(target, token)?;
        Ok(ApiClient { _socket: Some(socket), ..client })
    }

    /// The server, as the user named it.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Reads a value of the API. `path` begins after `/api/v1`.
    pub(crate) fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ApiError> {
        let (status, body) = self.send(&Method::GET, &format!("{PREFIX}{path}"), None)?;
        self.read(status, &body)
    }

    /// Reads the bytes of a body.
    pub(crate) fn get_bytes(&mut self, path: &str) -> Result<Vec<u8>, ApiError> {
        let (status, body) = self.send(&Method::GET, &format!("{PREFIX}{path}"), None)?;
        if status.is_success() { Ok(body.to_vec()) } else { Err(self.refusal(status, &body)) }
    }

    /// Sends a change that needs no body. A reply without a body counts as `null`.
    pub(crate) fn change<T: DeserializeOwned>(
        &mut self,
        method: &Method,
        path: &str,
    ) -> Result<T, ApiError> {
        self.send_json(method, path, None)
    }

    /// Sends a change. A reply without a body counts as `null`.
    pub(crate) fn send_json<T: DeserializeOwned>(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ApiError> {
        let (status, body) = self.send(method, &format!("{PREFIX}{path}"), body)?;
        let is_empty = status.is_success() && body.is_empty();
        self.read(status, if is_empty { b"null" } else { &body })
    }

    /// The time from a request to its reply. The request needs no rights.
    pub(crate) fn round_trip(&mut self) -> Result<Duration, ApiError> {
        self.send(&Method::GET, "/health/live", None)?;
        // The connection exists now.
        let began = Instant::now();
        let (status, _) = self.send(&Method::GET, "/health/live", None)?;
        if status.is_success() { Ok(began.elapsed()) } else { Err(self.not_the_api(status)) }
    }

    fn read<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, ApiError> {
        if status.is_success() {
            return serde_json::from_slice(body).map_err(|_| self.not_the_api(status));
        }
        Err(self.refusal(status, body))
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> ApiError {
        match serde_json::from_slice(body) {
            Ok(problem) => ApiError::Refused(Box::new(problem)),
            Err(_) => self.not_the_api(status),
        }
    }

    fn not_the_api(&self, status: StatusCode) -> ApiError {
        ApiError::NotTheApi { address: self.target.to_string(), status }
    }

    fn send(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Bytes), ApiError> {
        let host = self.target.address().host().unwrap_or("localhost");
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, host)
            .header(ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(Full::new(body)).map_err(|error| ApiError::Broken {
            address: self.target.to_string(),
            reason: error.to_string(),
        })?;
        if self.used_at.elapsed() > IDLE_MAX || self.opened_at.elapsed() > AGE_MAX {
            self.sender = None;
        }
        self.used_at = Instant::now();
        let (target, sender, opened_at) = (&self.target, &mut self.sender, &mut self.opened_at);
        self.runtime.block_on(async {
            let is_open = match sender {
                Some(sender) => sender.ready().await.is_ok(),
                None => false,
            };
            if !is_open {
                *opened_at = Instant::now();
                let connected = tokio::time::timeout(CONNECT_TIMEOUT, connect(target)).await;
                let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                *sender = Some(connected.map_err(|error| ApiError::Unreachable {
                    address: target.to_string(),
                    reason: plain_reason(&error),
                })?);
            }
            let sender = sender.as_mut().expect("it was set above");
            let done = tokio::time::timeout(PATIENCE, exchange(sender, request)).await;
            let done = done.unwrap_or_else(|_| Err("the server did not answer in time".into()));
            done.map_err(|error| ApiError::Broken {
                address: target.to_string(),
                reason: error.to_string(),
            })
        })
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let response: Response<_> = sender.send_request(request).await?;
    let status = response.status();
    match Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await {
        Ok(body) => Ok((status, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err("the reply is too long".into()),
        Err(error) => Err(error),
    }
}

async fn connect(target: &Target) -> io::Result<SendRequest<Full<Bytes>>> {
    match target.address() {
        Address::Unix(path) => secure(target, UnixStream::connect(path).await?).await,
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            secure(target, stream).await
        }
    }
}

async fn secure<S>(target: &Target, stream: S) -> io::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    match target.tls() {
        None => begin(stream).await,
        Some((config, name)) => {
            begin(TlsConnector::from(config.clone()).connect(name.clone(), stream).await?).await
        }
    }
}

async fn begin<S>(stream: S) -> io::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // The task runs while a request waits for its reply. A broken connection ends the request.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// The largest token file of a tool. A token has fewer than 100 bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;

/// The first line of a token file of a tool.
pub(crate) fn read_token(path: &Path) -> io::Result<String> {
    let bytes = operator_file::read_any(path, TOKEN_FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The name of a queue as a segment of a path.
pub(crate) fn segment(queue: &str) -> String {
    shown_segment(&api::shown_name(queue.as_bytes()))
}

/// A name as a segment of a path, in the form in which the API shows it.
pub(crate) fn shown_segment(shown: &str) -> String {
    percent_encoding::utf8_percent_encode(shown, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn an_old_connection_is_replaced_although_it_is_in_use() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port };
        // The answer to each request is the number of its connection.
        let server = std::thread::spawn(move || {
            for number in 1..=2 {
                let (mut stream, _) = listener.accept().unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    if line.is_empty() {
                        let answer =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                }
            }
        });
        let mut client = ApiClient::new(Target::plain(address), None).unwrap();
        let mut connection = |age: Duration| {
            client.opened_at = Instant::now().checked_sub(age).unwrap();
            client.get::<u64>("/operations/1").unwrap()
        };
        // The first request connects.
        let ages = [0, 60, 300, 60].map(Duration::from_secs);
        assert_eq!(ages.map(&mut connection), [1, 1, 2, 2]);
        drop(client);
        server.join().unwrap();
    }
}
