//! `[cluster]`: the keys of a server that is the node of a cluster, and their values.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use nats::guard::Question;
use nats::{Access, Place};
use notation::address::{Address, ListenAddress, parse_listeners};
use notation::{duration, port, size};
use replica::Lineage;

use crate::config::Durability;
use crate::config::settings::{
    Setting, assign, parse_bool, parse_file, quote, show_file, show_list,
};
use crate::process::facts::host_name;

/// The name of a cluster is a part of the names of its stream and subjects.
const NAME_BYTES_MAX: usize = 32;
const NODE_BYTES_MAX: usize = 64;
const LEASE: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(10);
/// A smaller stream would be full before its trims are worth a request.
const STREAM_BYTES_MIN: u64 = 64 << 20;
/// A slower copy would never end.
const COPY_BYTES_PER_S_MIN: u64 = 1 << 20;

/// The cluster that a server belongs to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cluster {
    /// The name of the cluster. `None`: the server is alone.
    pub name: Option<String>,
    /// The name of this node. `None`: the name of the machine.
    pub node: Option<String>,
    /// The servers of NATS.
    pub nats: Vec<String>,
    /// Their monitoring addresses.
    pub nats_monitor: Vec<String>,
    /// A file of credentials for NATS.
    pub nats_credentials: Option<PathBuf>,
    /// A file with the name of a user of NATS, and a password.
    pub nats_user: Option<PathBuf>,
    /// The authority of the certificates of NATS. `None`: those of the system.
    pub nats_ca: Option<PathBuf>,
    /// A certificate for NATS.
    pub nats_certificate: Option<PathBuf>,
    /// Its private key.
    pub nats_key: Option<PathBuf>,
    /// Where other nodes connect.
    pub listen: ListenAddress,
    /// The address at which they reach this node. `None`: like `listen`.
    pub advertise: Option<String>,
    /// The authority of the certificates of all nodes.
    pub ca: Option<PathBuf>,
    /// The certificate of this node.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// A leader may answer for this time after the begin of its last append.
    pub lease: Duration,
    /// Whether this node can lead without an order.
    pub lead: bool,
    /// A trim leaves this much of the stream.
    pub stream_keep_bytes: u64,
    /// The size that the stream should not exceed.
    pub stream_max_bytes: u64,
    /// A node sends a copy of its folder at most this fast, in bytes per second.
    pub copy_bytes_per_s: u64,
    /// Whether servers of NATS can share a machine. Only for trials.
    pub allow_colocated: bool,
    /// Whether NATS may acknowledge before it has flushed. Only for trials.
    pub unsafe_flush: bool,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            name: None,
            node: None,
            nats: Vec::new(),
            nats_monitor: Vec::new(),
            nats_credentials: None,
            nats_user: None,
            nats_ca: None,
            nats_certificate: None,
            nats_key: None,
            listen: Address::Tcp { host: "127.0.0.1".to_owned(), port: port::CLUSTER }.into(),
            advertise: None,
            ca: None,
            certificate: None,
            key: None,
            lease: Duration::from_millis(1500),
            lead: true,
            stream_keep_bytes: 256 << 20,
            stream_max_bytes: 16 << 30,
            copy_bytes_per_s: 64 << 20,
            allow_colocated: false,
            unsafe_flush: false,
        }
    }
}

impl Cluster {
    /// The name of this node.
    pub fn node_name(&self) -> String {
        self.node.clone().unwrap_or_else(host_name)
    }

    /// The address at which other nodes reach this node.
    pub fn advertised(&self) -> String {
        self.advertise.clone().unwrap_or_else(|| self.listen.to_string())
    }

    /// The stream, with this name and number of replicas, and how to reach it.
    pub fn place(&self, name: String, replicas: usize) -> Place {
        let access = Access {
            credentials: self.nats_credentials.clone(),
            user: self.nats_user.clone(),
            authority: self.nats_ca.clone(),
            identity: self.nats_certificate.clone().zip(self.nats_key.clone()),
        };
        Place { servers: self.nats.clone(), name, replicas, access }
    }

    /// What the servers of NATS and the stream are asked. `lineage`: that of the stream, if it exists.
    pub fn question(&self, place: Place, lineage: Option<Lineage>) -> Question {
        Question {
            place,
            monitors: self.nats_monitor.clone(),
            lineage,
            stream_bytes_max: self.stream_max_bytes,
            allow_colocated: self.allow_colocated,
            unsafe_flush: self.unsafe_flush,
        }
    }

    /// Checks that the values fit together. An error is a key, and what is wrong with it.
    pub(super) fn check(&self, sync: Durability) -> Result<(), (&'static str, &'static str)> {
        if self.name.is_none() {
            let alone = "without cluster.name, the server is alone";
            return if self.nats.is_empty() { Ok(()) } else { Err(("cluster.nats", alone)) };
        }
        if self.nats.is_empty() {
            return Err(("cluster.name", "a cluster also needs cluster.nats"));
        }
        if self.nats_monitor.is_empty() && !self.unsafe_flush {
            let reason = "a cluster also needs cluster.nats_monitor, to check that the servers of NATS \
                          flush each record";
            return Err(("cluster.name", reason));
        }
        if self.nats_certificate.is_some() != self.nats_key.is_some() {
            let key = if self.nats_key.is_some() {
                "cluster.nats_key"
            } else {
                "cluster.nats_certificate"
            };
            return Err((key, "cluster.nats_certificate and cluster.nats_key need each other"));
        }
        if self.ca.is_none() || self.certificate.is_none() || self.key.is_none() {
            let reason = "a cluster also needs cluster.ca, cluster.certificate and cluster.key, for the \
                          links between its nodes";
            return Err(("cluster.name", reason));
        }
        let is_any = |host: &str| matches!(host, "0.0.0.0" | "::");
        let Address::Tcp { host, .. } = &self.listen.address else {
            return Err(("cluster.listen", "other nodes need an address of a network"));
        };
        if self.advertise.is_none() && is_any(host) {
            return Err(("cluster.listen", "other nodes need cluster.advertise, too"));
        }
        if self.stream_keep_bytes > self.stream_max_bytes / 4 {
            return Err(("cluster.stream_keep", "more than a quarter of cluster.stream_max"));
        }
        if sync == Durability::Memory {
            return Err(("data.sync", "a node of a cluster needs a data folder"));
        }
        if sync == Durability::Never {
            let reason = "a node of a cluster needs `always` or a time: the stream is trimmed up to \
                          what is on disk";
            return Err(("data.sync", reason));
        }
        Ok(())
    }
}

/// The keys, in display order.
pub(super) static SETTINGS: [Setting; 21] = [
    Setting {
        key: "cluster.name",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.name, parse_name(value[0])),
        show: |config| quote(config.cluster.name.as_deref().unwrap_or("off")),
    },
    Setting {
        key: "cluster.node",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.node, parse_node(value[0])),
        show: |config| quote(config.cluster.node.as_deref().unwrap_or("auto")),
    },
    Setting {
        key: "cluster.nats",
        many: true,
        live: false,
        set: |config, value| {
            assign(&mut config.cluster.nats, parse_urls(value, &["nats://", "tls://"]))
        },
        show: |config| show_urls(&config.cluster.nats),
    },
    Setting {
        key: "cluster.nats_monitor",
        many: true,
        live: false,
        set: |config, value| {
            assign(&mut config.cluster.nats_monitor, parse_urls(value, &["http://", "https://"]))
        },
        show: |config| show_urls(&config.cluster.nats_monitor),
    },
    Setting {
        key: "cluster.nats_credentials",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.nats_credentials, parse_file(value[0])),
        show: |config| show_file(config.cluster.nats_credentials.as_deref()),
    },
    Setting {
        key: "cluster.nats_user",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.nats_user, parse_file(value[0])),
        show: |config| show_file(config.cluster.nats_user.as_deref()),
    },
    Setting {
        key: "cluster.nats_ca",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.nats_ca, parse_file(value[0])),
        show: |config| show_file(config.cluster.nats_ca.as_deref()),
    },
    Setting {
        key: "cluster.nats_certificate",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.nats_certificate, parse_file(value[0])),
        show: |config| show_file(config.cluster.nats_certificate.as_deref()),
    },
    Setting {
        key: "cluster.nats_key",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.nats_key, parse_file(value[0])),
        show: |config| show_file(config.cluster.nats_key.as_deref()),
    },
    Setting {
        key: "cluster.listen",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.listen, parse_listen(value[0])),
        show: |config| quote(&config.cluster.listen.to_string()),
    },
    Setting {
        key: "cluster.advertise",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.advertise, parse_advertise(value[0])),
        show: |config| quote(config.cluster.advertise.as_deref().unwrap_or("auto")),
    },
    Setting {
        key: "cluster.ca",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.ca, parse_file(value[0])),
        show: |config| show_file(config.cluster.ca.as_deref()),
    },
    Setting {
        key: "cluster.certificate",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.certificate, parse_file(value[0])),
        show: |config| show_file(config.cluster.certificate.as_deref()),
    },
    Setting {
        key: "cluster.key",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.key, parse_file(value[0])),
        show: |config| show_file(config.cluster.key.as_deref()),
    },
    Setting {
        key: "cluster.lease",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.lease, parse_lease(value[0])),
        show: |config| quote(&duration::format(config.cluster.lease)),
    },
    Setting {
        key: "cluster.lead",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.lead, parse_bool(value[0])),
        show: |config| config.cluster.lead.to_string(),
    },
    Setting {
        key: "cluster.stream_keep",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.stream_keep_bytes, size::parse(value[0])),
        show: |config| quote(&size::format(config.cluster.stream_keep_bytes)),
    },
    Setting {
        key: "cluster.stream_max",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.cluster.stream_max_bytes, parse_stream_bytes(value[0]))
        },
        show: |config| quote(&size::format(config.cluster.stream_max_bytes)),
    },
    Setting {
        key: "cluster.copy_rate",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.cluster.copy_bytes_per_s, parse_copy_rate(value[0]))
        },
        show: |config| quote(&size::format(config.cluster.copy_bytes_per_s)),
    },
    Setting {
        key: "cluster.allow_colocated",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.allow_colocated, parse_bool(value[0])),
        show: |config| config.cluster.allow_colocated.to_string(),
    },
    Setting {
        key: "cluster.unsafe_flush",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.cluster.unsafe_flush, parse_bool(value[0])),
        show: |config| config.cluster.unsafe_flush.to_string(),
    },
];

fn parse_name(text: &str) -> Result<Option<String>, String> {
    if text == "off" {
        return Ok(None);
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_fit = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part);
    is_fit.then(|| Some(text.to_owned())).ok_or_else(|| {
        format!(
            "`{text}` is neither `off` nor 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`; the \
             name is a part of the stream's name"
        )
    })
}

fn parse_node(text: &str) -> Result<Option<String>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let is_part = |byte: u8| byte.is_ascii_graphic();
    let is_fit = (1..=NODE_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part);
    is_fit.then(|| Some(text.to_owned())).ok_or_else(|| {
        format!("`{text}` is neither `auto` nor 1 to {NODE_BYTES_MAX} characters without spaces")
    })
}

fn parse_urls(texts: &[&str], schemes: &[&str]) -> Result<Vec<String>, String> {
    if texts == ["off"] {
        return Ok(Vec::new());
    }
    let is_url = |text: &str| {
        schemes.iter().any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
    };
    match texts.iter().find(|text| !is_url(text)) {
        // Do not show the text, because it can have a password.
        Some(_) => Err(format!("a URL here begins with {}", schemes.join(" or "))),
        None if texts.is_empty() => Err("the list is empty; write `off`".to_owned()),
        None => Ok(texts.iter().map(|text| (*text).to_owned()).collect()),
    }
}

/// Shows URLs without the user and the password in them.
fn show_urls(urls: &[String]) -> String {
    let shown: Vec<String> = urls
        .iter()
        .map(|url| match (url.split_once("://"), url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
            _ => url.clone(),
        })
        .collect();
    show_list(&shown.iter().map(String::as_str).collect::<Vec<_>>(), "off")
}

fn parse_listen(text: &str) -> Result<ListenAddress, String> {
    let wrong = || format!("`{text}` is not an address such as `10.0.0.1:7301`");
    let addresses = parse_listeners(&[text]).map_err(|error| error.to_string())?;
    match &addresses[..] {
        [one] if !one.is_tls && matches!(one.address, Address::Tcp { .. }) => Ok(one.clone()),
        _ => Err(wrong()),
    }
}

fn parse_advertise(text: &str) -> Result<Option<String>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    match port {
        Some((_, port)) if is_port(port) && !text.contains(' ') => Ok(Some(text.to_owned())),
        _ => {
            Err(format!("`{text}` is neither `auto` nor an address such as `node-1.example:7301`"))
        }
    }
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        time if LEASE.contains(&time) => Ok(time),
        _ => Err(format!("`{text}` is not a time from 500ms to 10s")),
    }
}

fn parse_stream_bytes(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes >= STREAM_BYTES_MIN => Ok(bytes),
        _ => Err(format!("`{text}` is less than {}", size::format(STREAM_BYTES_MIN))),
    }
}

fn parse_copy_rate(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes >= COPY_BYTES_PER_S_MIN => Ok(bytes),
        _ => Err(format!("`{text}` is less than {}", size::format(COPY_BYTES_PER_S_MIN))),
    }
}
