//! The names of the server's status.

use broker::Status;

/// The reason why a client cannot set a status.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum NoStatus {
    /// No status has this name.
    Unknown,
    /// Only a stopping server has this status.
    Forbidden,
}

/// The name of a status, in upper case.
pub(crate) fn name(status: Status) -> &'static str {
    match status {
        Status::Up => "UP",
        Status::WriteAvoid => "WRITEAVOID",
        Status::ReadOnly => "READONLY",
        Status::Quiescent => "QUIESCENT",
    }
}

/// Parses the name of a status in upper or lower case.
pub(crate) fn parse(word: &[u8]) -> Result<Status, NoStatus> {
    match &word.to_ascii_uppercase()[..] {
        b"UP" => Ok(Status::Up),
        b"WRITEAVOID" => Ok(Status::WriteAvoid),
        b"READONLY" => Ok(Status::ReadOnly),
        b"QUIESCENT" => Ok(Status::Quiescent),
        b"DOWN" => Err(NoStatus::Forbidden),
        _ => Err(NoStatus::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_found_by_its_name_in_any_case() {
        for status in [Status::Up, Status::WriteAvoid, Status::ReadOnly, Status::Quiescent] {
            assert_eq!(parse(name(status).as_bytes()), Ok(status));
            assert_eq!(parse(name(status).to_lowercase().as_bytes()), Ok(status));
        }
        assert_eq!(parse(b"Down"), Err(NoStatus::Forbidden));
        assert_eq!(parse(b"spongebob"), Err(NoStatus::Unknown));
        assert_eq!(parse(b""), Err(NoStatus::Unknown));
    }
}
