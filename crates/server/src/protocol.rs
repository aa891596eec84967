//! The protocols that clients speak: what the server calls them, and how a session of each begins.

use std::sync::Arc;

use broker::Millis;
use origin::Gate;

use crate::config::{Config, Control};
use crate::mailbox::Open;
use crate::process;
use crate::sites::names;

/// A protocol that clients speak. Each listener has one.
#[derive(Copy, Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// That of beanstalkd.
    Beanstalk,
    /// That of gearmand.
    Gearman,
    /// Gearman's jobs, one for each HTTP request.
    GearmanHttp,
    /// Kestrel's, for clients of memcached.
    Kestrel,
    /// Kestrel's own lines of text.
    KestrelText,
    /// Kestrel's, by thrift.
    KestrelThrift,
    /// Kestrel's admin commands, over HTTP.
    KestrelAdmin,
    /// HTTP about the server itself: its health and its metrics.
    Http,
}

impl Protocol {
    /// All of them, in the order in which they are shown. That is also the order of their declaration, so
    /// that the number of one is its place here.
    pub const ALL: [Protocol; 8] = [
        Protocol::Beanstalk,
        Protocol::Gearman,
        Protocol::GearmanHttp,
        Protocol::Kestrel,
        Protocol::KestrelText,
        Protocol::KestrelThrift,
        Protocol::KestrelAdmin,
        Protocol::Http,
    ];

    /// Its name, as in flags and keys.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Beanstalk => "beanstalk",
            Protocol::Gearman => "gearman",
            Protocol::GearmanHttp => "gearman_http",
            Protocol::Kestrel => "kestrel",
            Protocol::KestrelText => "kestrel_text",
            Protocol::KestrelThrift => "kestrel_thrift",
            Protocol::KestrelAdmin => "kestrel_admin",
            Protocol::Http => "http",
        }
    }

    /// What opens the sessions of all its listeners; `None` if the `web` thread serves them.
    pub(crate) fn open(
        self,
        config: &Config,
        started: Millis,
        kestrel: &Arc<kestrel::Server>,
    ) -> Option<Arc<Open>> {
        match self {
            Protocol::Beanstalk => Some(open_beanstalk(config, started)),
            Protocol::Gearman => Some(open_gearman(config)),
            Protocol::GearmanHttp => Some(open_gearman_http(config)),
            Protocol::Kestrel => Some(open_kestrel(kestrel.clone(), config.kestrel.control)),
            Protocol::KestrelText => {
                Some(open_kestrel_text(kestrel.clone(), config.kestrel.control))
            }
            Protocol::KestrelThrift => {
                Some(open_kestrel_thrift(kestrel.clone(), config.kestrel.control))
            }
            Protocol::KestrelAdmin | Protocol::Http => None,
        }
    }

    /// Whether HTTP is spoken here, so that requests of browsers are what is expected.
    pub(crate) fn is_http(self) -> bool {
        match self {
            Protocol::GearmanHttp | Protocol::KestrelAdmin | Protocol::Http => true,
            Protocol::Beanstalk
            | Protocol::Gearman
            | Protocol::Kestrel
            | Protocol::KestrelText
            | Protocol::KestrelThrift => false,
        }
    }

    /// Whether its clients can stop the server, where that is allowed.
    pub(crate) fn has_control(self) -> bool {
        match self {
            Protocol::Kestrel | Protocol::KestrelText | Protocol::KestrelAdmin => true,
            Protocol::Beanstalk
            | Protocol::Gearman
            | Protocol::GearmanHttp
            | Protocol::KestrelThrift
            | Protocol::Http => false,
        }
    }

    /// Its connections are closed when nothing comes from their peers for so long.
    pub(crate) fn silence_max_ms(self, config: &Config) -> Option<u64> {
        match self {
            Protocol::Kestrel | Protocol::KestrelText | Protocol::KestrelThrift => {
                config.kestrel.client_timeout.map(|time| time.as_millis() as u64)
            }
            Protocol::Beanstalk
            | Protocol::Gearman
            | Protocol::GearmanHttp
            | Protocol::KestrelAdmin
            | Protocol::Http => None,
        }
    }
}

fn open_beanstalk(config: &Config, started: Millis) -> Arc<Open> {
    let listener = Arc::new(beanstalk::Listener {
        server: beanstalk::Server::new(process::beanstalk_info(started, config.data.segment_bytes)),
        max_job_size: config.limits.beanstalk_job_bytes,
    });
    Arc::new(move |_entrance, turn, mailbox| {
        let session = beanstalk::Session::new(listener.clone(), turn, mailbox);
        (session.id(), Box::new(session))
    })
}

fn open_gearman(config: &Config) -> Arc<Open> {
    let server = gearman::Server::new(process::gearman_options(config));
    Arc::new(move |entrance, turn, mailbox| {
        let session = gearman::Session::new(server.clone(), &entrance.peer.shown(), turn, mailbox);
        (session.id(), Box::new(session))
    })
}

/// Its connections are in no list of workers, so it needs no more of the others than their options.
fn open_gearman_http(config: &Config) -> Arc<Open> {
    let server = gearman::Server::new(process::gearman_options(config));
    let names = Arc::new(names(config));
    Arc::new(move |entrance, turn, mailbox| {
        let gate = Gate { names: names.clone(), reach: entrance.reach };
        let session = gearman::HttpSession::new(server.clone(), gate, turn, mailbox);
        (session.id(), Box::new(session))
    })
}

fn open_kestrel(server: Arc<kestrel::Server>, control: Control) -> Arc<Open> {
    Arc::new(move |entrance, turn, mailbox| {
        let mut session = kestrel::MemcacheSession::new(server.clone(), turn, mailbox);
        if !control.is_allowed(entrance.reach) {
            session = session.without_control();
        }
        (session.id(), Box::new(session))
    })
}

fn open_kestrel_text(server: Arc<kestrel::Server>, control: Control) -> Arc<Open> {
    Arc::new(move |entrance, turn, mailbox| {
        let mut session = kestrel::TextSession::new(server.clone(), turn, mailbox);
        if !control.is_allowed(entrance.reach) {
            session = session.without_control();
        }
        (session.id(), Box::new(session))
    })
}

fn open_kestrel_thrift(server: Arc<kestrel::Server>, control: Control) -> Arc<Open> {
    Arc::new(move |entrance, turn, mailbox| {
        let mut session = kestrel::ThriftSession::new(server.clone(), turn, mailbox);
        if !control.is_allowed(entrance.reach) {
            session = session.without_control();
        }
        (session.id(), Box::new(session))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_protocol_is_its_place_among_all() {
        for (place, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol as usize, place);
        }
    }
}
