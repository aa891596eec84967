//! `-u USER`: gives up the rights with which the port was bound.

use nix::unistd::{User, getuid, setgid, setgroups, setuid};

use super::Failure;

const LOOKUP_FAILED: u8 = 32;
const UNKNOWN: u8 = 33;
const REFUSED: u8 = 34;

/// Becomes the user and its group, for the whole process.
pub(super) fn become_user(name: &str) -> Result<(), Failure> {
    let failed = |code, message| Failure { code, message };
    let user = User::from_name(name)
        .map_err(|error| failed(LOOKUP_FAILED, format!("getpwnam(\"{name}\"): {error}")))?
        .ok_or_else(|| failed(UNKNOWN, format!("getpwnam(\"{name}\"): no such user")))?;
    if getuid().is_root() {
        // The original keeps root's other groups; nobody wants that.
        setgroups(&[]).map_err(|error| failed(REFUSED, format!("setgroups(): {error}")))?;
    }
    let (uid, gid) = (user.uid, user.gid);
    setgid(gid).map_err(|error| failed(REFUSED, format!("setgid({gid} \"{name}\"): {error}")))?;
    setuid(uid).map_err(|error| failed(REFUSED, format!("setuid({uid} \"{name}\"): {error}")))
}
