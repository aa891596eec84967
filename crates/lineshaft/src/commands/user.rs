//! `-u USER` of the originals: gives up root's privileges after the start.

use nix::errno::Errno;
use nix::unistd::{User, getuid, setgid, setgroups, setuid};

/// Why the process could not become the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserError {
    #[error("getpwnam(\"{0}\"): {1}")]
    LookUp(String, Errno),
    #[error("getpwnam(\"{0}\"): no such user")]
    Unknown(String),
    /// The step that failed, and the system's error.
    #[error("{0}: {1}")]
    Refused(String, Errno),
}

/// Changes the user of the whole process to the user of this name, and the group to the user's
/// group.
pub(crate) fn become_user(name: &str) -> Result<(), UserError> {
    let user = User::from_name(name)
        .map_err(|error| UserError::LookUp(name.to_owned(), error))?
        .ok_or_else(|| UserError::Unknown(name.to_owned()))?;
    let refused = |step: String| move |error| UserError::Refused(step, error);
    if getuid().is_root() {
        // The originals keep root's other groups. That would be unsafe.
        setgroups(&[]).map_err(refused("setgroups()".to_owned()))?;
    }
    let (uid, gid) = (user.uid, user.gid);
    setgid(gid).map_err(refused(format!("setgid({gid} \"{name}\")")))?;
    setuid(uid).map_err(refused(format!("setuid({uid} \"{name}\")")))
}
