//! Opens sessions of each protocol.

use std::sync::Arc;

use broker::Millis;
use origin::Gate;

use crate::config::Config;
use crate::config::protocol::Protocol;
use crate::process::facts;
use crate::threads::mailbox::OpenSession;
use crate::web::sites::names;

/// The function that opens sessions of a protocol. `None` if the module `web` serves the protocol.
pub(crate) fn opener(
    protocol: Protocol,
    config: &Config,
    started: Millis,
    kestrel: &Arc<kestrel::Server>,
) -> Option<Arc<OpenSession>> {
    match protocol {
        Protocol::Beanstalk => Some(open_beanstalk(config, started)),
        Protocol::Gearman => Some(open_gearman(config)),
        Protocol::GearmanHttp => Some(open_gearman_http(config)),
        Protocol::Kestrel => Some(open_kestrel(kestrel.clone())),
        Protocol::KestrelText => Some(open_kestrel_text(kestrel.clone())),
        Protocol::KestrelThrift => Some(open_kestrel_thrift(kestrel.clone())),
        Protocol::KestrelAdmin | Protocol::Http => None,
    }
}

fn open_beanstalk(config: &Config, started: Millis) -> Arc<OpenSession> {
    let listener = Arc::new(beanstalk::Listener {
        server: beanstalk::Server::new(facts::beanstalk_info(started, config.data.segment_bytes)),
        max_job_size: config.limits.beanstalk_job_bytes,
    });
    Arc::new(move |_entrance, turn, mailbox| {
        let session = beanstalk::Session::new(listener.clone(), turn, mailbox);
        (session.id(), Box::new(session))
    })
}

fn open_gearman(config: &Config) -> Arc<OpenSession> {
    let server = gearman::Server::new(facts::gearman_options(config));
    Arc::new(move |info, turn, mailbox| {
        let session = gearman::Session::new(server.clone(), &info.peer.shown(), turn, mailbox);
        (session.id(), Box::new(session))
    })
}

/// HTTP connections must not be in Gearman's list of workers. So they have a separate `Server`,
/// with the same options.
pub(crate) fn open_gearman_http(config: &Config) -> Arc<OpenSession> {
    let server = gearman::Server::new(facts::gearman_options(config));
    let own = Arc::new(names(config));
    Arc::new(move |info, turn, mailbox| {
        let names = info.names.unwrap_or(&own).clone();
        let gate = Gate { names, reach: info.listener.access.reach };
        let session = gearman::HttpSession::new(server.clone(), gate, turn, mailbox);
        (session.id(), Box::new(session))
    })
}

fn open_kestrel(server: Arc<kestrel::Server>) -> Arc<OpenSession> {
    Arc::new(move |info, turn, mailbox| {
        let mut session = kestrel::MemcacheSession::new(server.clone(), turn, mailbox);
        if !info.listener.access.may_control {
            session = session.without_control();
        }
        (session.id(), Box::new(session))
    })
}

fn open_kestrel_text(server: Arc<kestrel::Server>) -> Arc<OpenSession> {
    Arc::new(move |info, turn, mailbox| {
        let mut session = kestrel::TextSession::new(server.clone(), turn, mailbox);
        if !info.listener.access.may_control {
            session = session.without_control();
        }
        (session.id(), Box::new(session))
    })
}

fn open_kestrel_thrift(server: Arc<kestrel::Server>) -> Arc<OpenSession> {
    Arc::new(move |info, turn, mailbox| {
        let mut session = kestrel::ThriftSession::new(server.clone(), turn, mailbox);
        if !info.listener.access.may_control {
            session = session.without_control();
        }
        (session.id(), Box::new(session))
    })
}
