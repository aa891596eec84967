//! Taking over a changed configuration while the server runs: all of it, or nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::{Position, Turn};

use crate::config::Config;
use crate::config_sources::{Effective, Sources};
use crate::limits::LiveLimits;
use crate::logging::Logging;
use crate::settings::{SETTINGS, Setting};
use crate::tls::{Certificates, TlsError};

/// Reads the configuration and puts it into force, when a signal or a client asks for it.
#[derive(Debug)]
pub(crate) struct Reloader {
    /// `None`: there is nothing to read.
    pub(crate) sources: Option<Sources>,
    pub(crate) limits: Arc<LiveLimits>,
    pub(crate) logging: Option<Logging>,
    /// Of the listeners with TLS, if there are any.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// What is in force. The broker may be locked when this is; so it must not be locked under this.
    pub(crate) config: Mutex<Config>,
}

impl Reloader {
    /// Takes over what has changed. Whether the policies have: then [`Reloader::set_policies`] has to
    /// follow. All or nothing, since half a new configuration is what nobody has written: if anything
    /// is wrong it is logged, and nothing changes.
    pub(crate) fn reload(&self) -> bool {
        let loaded = match self.sources.as_ref().map(Sources::load) {
            None => return false,
            Some(Ok(Effective { config, .. })) => config,
            Some(Err(mistakes)) => {
                tracing::error!("configuration not reloaded, nothing was changed: {mistakes}");
                return false;
            }
        };
        let mut current = self.current();
        let changed = |setting: &&Setting| (setting.show)(&loaded) != (setting.show)(&current);
        let changes: Vec<&Setting> = SETTINGS.iter().filter(changed).collect();
        if let Err(reason) = self.check(&changes, &loaded) {
            tracing::error!("configuration not reloaded, nothing was changed: {reason}");
            return false;
        }
        for setting in changes {
            tracing::info!("{} is now {}", setting.key, (setting.show)(&loaded));
        }
        self.limits.set(&loaded.limits);
        if let Some(logging) = &self.logging {
            logging.set_level(loaded.log.level);
        }
        let has_new_policies = loaded.policies != current.policies;
        *current = loaded;
        tracing::info!("configuration reloaded");
        has_new_policies
    }

    /// What may still fail: changes that a running server cannot take, and certificates.
    fn check(&self, changes: &[&Setting], loaded: &Config) -> Result<(), String> {
        let fixed: Vec<&str> =
            changes.iter().filter(|setting| !setting.live).map(|setting| setting.key).collect();
        if !fixed.is_empty() {
            return Err(format!("a restart is needed for {}", fixed.join(", ")));
        }
        let reload = self.certificates.as_ref().map(|shown| shown.reload(&loaded.tls));
        reload.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    /// Puts the policies of the current configuration into force.
    pub(crate) fn set_policies(&self, turn: &mut Turn<'_>) -> Position {
        let policies = self.current().policies.clone();
        tracing::info!("the policies are now those of {} tables", policies.0.len());
        turn.set_policies(policies)
    }

    /// Reads the files of the certificates anew, whatever has become of the configuration.
    pub(crate) fn reload_certificates(&self) -> Result<(), TlsError> {
        match &self.certificates {
            Some(certificates) => certificates.reload(&self.current().tls),
            None => Ok(()),
        }
    }

    fn current(&self) -> MutexGuard<'_, Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
