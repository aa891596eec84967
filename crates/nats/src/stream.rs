//! How the stream must be configured. A stream with other settings is refused: some of them lose
//! records, or acknowledge them too early.

use std::fmt;
use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{
    Compression, Config, DiscardPolicy, Info, LastRawMessageErrorKind, RetentionPolicy, StorageType,
};
use async_nats::jetstream::{Context, ErrorCode};
use replica::Seq;
use tokio::time::timeout;

use crate::connect::Round;
use crate::{ConnectCause, ConnectError, Place, REQUEST_MAX};

/// The largest message.
pub(crate) const MESSAGE_BYTES_MAX: i32 = 1 << 20;
/// The largest hint.
const HINT_BYTES_MAX: i32 = 16 << 10;
/// The key of the lineage in the stream's metadata: 32 hexadecimal digits.
pub const LINEAGE: &str = "lineshaft.lineage";
/// The key of the format's version in the stream's metadata.
const FORMAT: &str = "lineshaft.format";
/// The key of the program's version in the stream's metadata.
const CREATED_BY: &str = "lineshaft.created_by";

/// Why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Another cluster has this name.
    #[error(
        "NATS already has a stream {0}; choose another cluster.name, or delete the stream if nobody \
         needs it"
    )]
    Exists(String),
    /// There are too few servers for the replicas.
    #[error("NATS cannot place {replicas} replicas of stream {name}: {detail}")]
    Peers {
        /// The stream.
        name: String,
        /// The replicas that it needs.
        replicas: usize,
        /// The server's text.
        detail: String,
    },
    /// The servers, or this account, have no streams.
    #[error(
        "JetStream is off for this user; add a `jetstream` block to the configuration of each NATS \
         server, and turn it on for the account"
    )]
    Off,
    /// The user has no right to ask, or nobody answers.
    #[error(
        "NATS does not answer questions about stream {name}: {detail}; check that most NATS servers \
         run, and the permissions of the user"
    )]
    Unanswered {
        /// The stream.
        name: String,
        /// What the library says.
        detail: String,
    },
    /// NATS refused.
    #[error("NATS refuses stream {name}: {detail}")]
    Refused {
        /// The stream.
        name: String,
        /// The server's text.
        detail: String,
    },
    /// The stream does not exist.
    #[error(
        "stream {0} does not exist; check cluster.name and cluster.nats, or begin a cluster with \
         `lineshaft cluster create`"
    )]
    Missing(String),
    /// Another program made the stream.
    #[error("stream {0} has no lineage in its metadata, so it is not the stream of a cluster")]
    NoLineage(String),
    /// Settings are wrong.
    #[error(transparent)]
    Settings(#[from] WrongSettings),
    /// No server accepts a connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl StreamError {
    /// Whether another server may know more.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, StreamError::Connect(_)) || self.may_pass()
    }

    /// Whether the same request can succeed in a moment, for example when NATS has a leader again.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            StreamError::Unanswered { .. } | StreamError::Peers { .. } | StreamError::Off => true,
            StreamError::Connect(error) => {
                matches!(error.cause, ConnectCause::Silent | ConnectCause::Other(_))
            }
            StreamError::Exists(_)
            | StreamError::Refused { .. }
            | StreamError::Missing(_)
            | StreamError::NoLineage(_)
            | StreamError::Settings(_) => false,
        }
    }
}

/// An existing stream has wrong settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WrongSettings {
    /// The stream.
    pub name: String,
    /// The settings. There is at least one.
    pub wrong: Vec<WrongSetting>,
}

/// A setting with a wrong value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WrongSetting {
    /// The setting.
    pub field: &'static str,
    /// Its value.
    pub found: String,
    /// The right value.
    pub expected: String,
}

impl fmt::Display for WrongSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} has wrong settings: ", self.name)?;
        for (at, WrongSetting { field, found, expected }) in self.wrong.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{field} is {found} instead of {expected}")?;
        }
        write!(f, "; correct them with `lineshaft cluster check --repair-stream`")
    }
}

impl std::error::Error for WrongSettings {}

/// The right settings, without metadata.
#[must_use]
pub fn config(place: &Place) -> Config {
    Config {
        name: place.stream(),
        subjects: vec![place.groups(), place.claims()],
        storage: StorageType::File,
        num_replicas: place.replicas,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        max_bytes: -1,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        max_message_size: MESSAGE_BYTES_MAX,
        // The shortest one that NATS accepts. No record has a message id.
        duplicate_window: Duration::from_millis(100),
        deny_delete: true,
        ..Config::default()
    }
}

/// The right settings of the bucket with the hints. Its values are in memory only: three flushed
/// records a second would cost more than they are worth.
#[must_use]
pub fn hints_config(place: &Place) -> Config {
    Config {
        name: place.hints(),
        subjects: vec![place.hint(">")],
        storage: StorageType::Memory,
        num_replicas: place.replicas,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        max_bytes: -1,
        max_messages: -1,
        max_messages_per_subject: 1,
        max_consumers: -1,
        max_message_size: HINT_BYTES_MAX,
        duplicate_window: Duration::from_millis(100),
        // Tools of NATS expect these settings of a bucket.
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        ..Config::default()
    }
}

/// Creates the stream of a new cluster. Another call with the same lineage changes nothing.
///
/// # Errors
///
/// NATS refuses, or does not answer. A stream with this name and another lineage exists.
pub async fn create(
    context: &Context,
    place: &Place,
    lineage: replica::Lineage,
) -> Result<(), StreamError> {
    let mut config = config(place);
    config.metadata.insert(LINEAGE.to_owned(), lineage.to_string());
    config.metadata.insert(FORMAT.to_owned(), replica::record::FORMAT.to_string());
    config.metadata.insert(CREATED_BY.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    create_with(context, config).await
}

/// Like [`create`], on the first server that answers.
///
/// # Errors
///
/// Like [`create`], or no server accepts a connection.
pub async fn create_at(place: &Place, lineage: replica::Lineage) -> Result<(), StreamError> {
    let mut round = Round::new(place);
    loop {
        let created = match round.next().await {
            Ok(context) => create(&context, place, lineage).await,
            Err(error) => Err(error.into()),
        };
        match created {
            Err(error) if error.is_local() && !round.is_over() => {}
            created => return created,
        }
    }
}

/// Creates the bucket with the hints, if it does not exist. It can be created again at any time:
/// nothing that counts is only in it.
///
/// # Errors
///
/// NATS refuses, or does not answer.
pub async fn create_hints(context: &Context, place: &Place) -> Result<(), StreamError> {
    create_with(context, hints_config(place)).await
}

async fn create_with(context: &Context, config: Config) -> Result<(), StreamError> {
    let (name, replicas) = (config.name.clone(), config.num_replicas);
    let Err(error) = context.create_stream(config).await else { return Ok(()) };
    let detail = error.to_string();
    Err(match error.kind() {
        CreateStreamErrorKind::JetStream(answer) => match answer.error_code() {
            ErrorCode::STREAM_NAME_EXIST => StreamError::Exists(name),
            ErrorCode::CLUSTER_NO_PEERS | ErrorCode::INSUFFICIENT_RESOURCES => {
                StreamError::Peers { name, replicas, detail: answer.to_string() }
            }
            code if is_off(code) => StreamError::Off,
            // The servers elect a leader.
            ErrorCode::CLUSTER_NOT_AVAILABLE => {
                StreamError::Unanswered { name, detail: answer.to_string() }
            }
            _ => StreamError::Refused { name, detail: answer.to_string() },
        },
        CreateStreamErrorKind::TimedOut
        | CreateStreamErrorKind::JetStreamUnavailable
        | CreateStreamErrorKind::Response
        | CreateStreamErrorKind::ResponseParse => StreamError::Unanswered { name, detail },
        _ => StreamError::Refused { name, detail },
    })
}

pub(crate) fn is_off(code: ErrorCode) -> bool {
    code == ErrorCode::JETSTREAM_NOT_ENABLED || code == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
}

/// What NATS knows about a stream. `None`: it does not exist.
///
/// # Errors
///
/// Nobody answers, or the user has no right to ask.
pub async fn info(context: &Context, name: &str) -> Result<Option<Info>, StreamError> {
    let error = match context.get_stream(name).await {
        Ok(stream) => return Ok(Some(stream.cached_info().clone())),
        Err(error) => error,
    };
    let (name, detail) = (name.to_owned(), error.to_string());
    match error.kind() {
        GetStreamErrorKind::JetStream(answer) => match answer.error_code() {
            ErrorCode::STREAM_NOT_FOUND => Ok(None),
            code if is_off(code) => Err(StreamError::Off),
            _ => Err(StreamError::Unanswered { name, detail: answer.to_string() }),
        },
        GetStreamErrorKind::EmptyName
        | GetStreamErrorKind::Request
        | GetStreamErrorKind::InvalidStreamName => Err(StreamError::Unanswered { name, detail }),
    }
}

/// Gives an existing stream the right settings. Its records and its metadata stay. NATS refuses some
/// changes, for example of the storage.
///
/// # Errors
///
/// NATS refuses, or does not answer.
pub async fn repair(context: &Context, place: &Place, found: &Config) -> Result<(), StreamError> {
    let config = Config { metadata: found.metadata.clone(), ..config(place) };
    let name = config.name.clone();
    match context.update_stream(&config).await {
        Ok(_) => Ok(()),
        Err(error) => Err(StreamError::Refused { name, detail: error.to_string() }),
    }
}

/// Deletes a stream with all its records.
///
/// # Errors
///
/// NATS refuses, or does not answer.
pub async fn delete(context: &Context, name: &str) -> Result<(), StreamError> {
    match context.delete_stream(name).await {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(StreamError::Refused { name: name.to_owned(), detail: error.to_string() })
        }
    }
}

/// What a node learns about the stream before it starts.
#[derive(Clone, Debug)]
pub struct Found {
    /// The lineage of the cluster.
    pub lineage: replica::Lineage,
    /// The number of replicas.
    pub replicas: usize,
    /// The names of the servers that have a replica.
    pub peers: Vec<String>,
}

/// Looks at the stream, and checks its settings. It can have 3 or 5 replicas, whatever the place says.
///
/// # Errors
///
/// Nobody answers, the stream does not exist, or it cannot be used.
pub async fn find(place: &Place) -> Result<Found, StreamError> {
    let mut round = Round::new(place);
    loop {
        let found = match round.next().await {
            Ok(context) => find_with(&context, place).await,
            Err(error) => Err(error.into()),
        };
        match found {
            Err(error) if error.is_local() && !round.is_over() => {}
            found => return found,
        }
    }
}

async fn find_with(context: &Context, place: &Place) -> Result<Found, StreamError> {
    let name = place.stream();
    let Some(info) = info(context, &name).await? else { return Err(StreamError::Missing(name)) };
    let replicas = if info.config.num_replicas == 5 { 5 } else { place.replicas };
    check(&Place { replicas, ..place.clone() }, &info.config)?;
    let lineage = lineage(&info.config).ok_or(StreamError::NoLineage(name))?;
    Ok(Found { lineage, replicas, peers: peers(&info) })
}

/// The last claim or renewal that the stream has. `None`: it has none.
///
/// # Errors
///
/// Nobody answers in time.
pub async fn last_claim(context: &Context, place: &Place) -> Result<Option<Seq>, StreamError> {
    let name = place.stream();
    let unanswered = |detail: String| StreamError::Unanswered { name: place.stream(), detail };
    let stream = context.get_stream_no_info(name).await;
    let stream = stream.map_err(|error| unanswered(error.to_string()))?;
    let claims = place.claims();
    let found = timeout(REQUEST_MAX, stream.get_last_raw_message_by_subject(&claims)).await;
    match found {
        Ok(Ok(message)) => Ok(Some(message.sequence)),
        Ok(Err(error)) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Ok(Err(error)) => Err(unanswered(error.to_string())),
        Err(late) => Err(unanswered(late.to_string())),
    }
}

/// The names of the servers that have a replica, with the leader.
#[must_use]
pub fn peers(info: &Info) -> Vec<String> {
    let Some(cluster) = &info.cluster else { return Vec::new() };
    let replicas = cluster.replicas.iter().map(|peer| peer.name.clone());
    cluster.leader.iter().cloned().chain(replicas).collect()
}

/// The lineage that a stream has in its metadata.
#[must_use]
pub fn lineage(config: &Config) -> Option<replica::Lineage> {
    config.metadata.get(LINEAGE)?.parse().ok()
}

/// Checks the settings of an existing stream.
///
/// # Errors
///
/// A setting is wrong. The error names all wrong ones.
pub fn check(place: &Place, found: &Config) -> Result<(), WrongSettings> {
    let right = config(place);
    let mut wrong = Vec::new();
    macro_rules! compare {
        ($($field:ident),* $(,)?) => {$(
            if found.$field != right.$field {
                wrong.push(WrongSetting {
                    field: stringify!($field),
                    found: format!("{:?}", found.$field),
                    expected: format!("{:?}", right.$field),
                });
            }
        )*};
    }
    compare!(
        name,
        subjects,
        storage,
        num_replicas,
        retention,
        discard,
        discard_new_per_subject,
        max_bytes,
        max_messages,
        max_messages_per_subject,
        max_consumers,
        max_message_size,
        max_age,
        duplicate_window,
        no_ack,
        sealed,
        allow_rollup,
        deny_delete,
        deny_purge,
        allow_direct,
        mirror_direct,
        republish,
        mirror,
        sources,
        subject_transform,
        persist_mode,
        allow_message_ttl,
        allow_atomic_publish,
        allow_message_schedules,
        allow_message_counter,
    );
    // A server can name the default.
    if found.compression.as_ref().is_some_and(|compression| *compression != Compression::None) {
        let (field, found) = ("compression", format!("{:?}", found.compression));
        wrong.push(WrongSetting { field, found, expected: "None".to_owned() });
    }
    if wrong.is_empty() { Ok(()) } else { Err(WrongSettings { name: place.stream(), wrong }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    fn place() -> Place {
        Place { servers: Vec::new(), name: "north".into(), replicas: 3, access: Access::default() }
    }

    #[test]
    fn wrong_settings_are_named() {
        check(&place(), &config(&place())).expect("the right settings");
        let wrong = |change: fn(&mut Config), field: &str| {
            let mut config = config(&place());
            change(&mut config);
            let error = check(&place(), &config).expect_err(field).to_string();
            assert!(error.contains(field), "{error}");
        };
        wrong(|config| config.storage = StorageType::Memory, "storage");
        wrong(|config| config.num_replicas = 1, "num_replicas");
        wrong(|config| config.max_age = Duration::from_secs(1), "max_age");
        wrong(|config| config.max_messages = 10, "max_messages");
        wrong(|config| config.discard = DiscardPolicy::Old, "discard");
        wrong(|config| config.allow_rollup = true, "allow_rollup");
        wrong(|config| config.deny_purge = true, "deny_purge");
        wrong(|config| config.allow_direct = true, "allow_direct");
        wrong(|config| config.subjects.push("more".into()), "subjects");
        wrong(|config| config.allow_atomic_publish = true, "allow_atomic_publish");
        wrong(|config| config.max_consumers = 1, "max_consumers");
        wrong(|config| config.compression = Some(Compression::S2), "compression");

        let two = Config { num_replicas: 1, deny_delete: false, ..config(&place()) };
        let error = check(&place(), &two).expect_err("two settings").to_string();
        let told = "num_replicas is 1 instead of 3, deny_delete is false instead of true;";
        assert!(error.contains(told), "{error}");
    }

    #[test]
    fn the_lineage_is_read_as_it_was_written() {
        let mut config = config(&place());
        assert_eq!(lineage(&config), None);
        let ours = replica::Lineage([0xab; 16]);
        config.metadata.insert(LINEAGE.into(), "ab".repeat(16));
        assert_eq!(lineage(&config), Some(ours));
        config.metadata.insert(LINEAGE.into(), "ab".into());
        assert_eq!(lineage(&config), None);
    }
}
