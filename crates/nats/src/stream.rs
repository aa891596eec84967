//! How the stream must be configured. A stream with other settings is refused: some of them lose
//! records, or acknowledge them too early.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, context};

use crate::Place;

/// The largest message.
const MESSAGE_BYTES_MAX: i32 = 1 << 20;
/// The key of the lineage in the stream's metadata: 32 hexadecimal digits.
pub const LINEAGE: &str = "lineshaft.lineage";

/// Why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// NATS refused, or did not answer.
    #[error("cannot create stream {name}: {error}")]
    Create {
        /// The stream.
        name: String,
        /// The answer.
        error: context::CreateStreamError,
    },
    /// A setting is wrong.
    #[error("stream {name} has {field} = {found}, but it must be {expected}")]
    Setting {
        /// The stream.
        name: String,
        /// The setting.
        field: &'static str,
        /// Its value.
        found: String,
        /// The right value.
        expected: String,
    },
}

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

/// Creates the stream of a new cluster.
///
/// # Errors
///
/// NATS refuses, or does not answer. A stream with this name and other settings exists.
pub async fn create(
    context: &jetstream::Context,
    place: &Place,
    lineage: replica::Lineage,
) -> Result<(), StreamError> {
    let mut config = config(place);
    let lineage = format!("{:032x}", u128::from_be_bytes(lineage.0));
    config.metadata.insert(LINEAGE.to_owned(), lineage);
    let name = config.name.clone();
    match context.create_stream(config).await {
        Ok(_) => Ok(()),
        Err(error) => Err(StreamError::Create { name, error }),
    }
}

/// The lineage that a stream has in its metadata.
#[must_use]
pub fn lineage(config: &Config) -> Option<replica::Lineage> {
    let digits = config.metadata.get(LINEAGE).filter(|digits| digits.len() == 32)?;
    let number = u128::from_str_radix(digits, 16).ok()?;
    Some(replica::Lineage(number.to_be_bytes()))
}

/// Checks the settings of an existing stream.
///
/// # Errors
///
/// A setting is wrong. The error names the first one.
pub fn check(place: &Place, found: &Config) -> Result<(), StreamError> {
    let right = config(place);
    macro_rules! compare {
        ($($field:ident),* $(,)?) => {$(
            if found.$field != right.$field {
                return Err(StreamError::Setting {
                    name: place.stream(),
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { servers: Vec::new(), name: "north".into(), replicas: 3 }
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
