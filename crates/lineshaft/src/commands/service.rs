//! Parses ports as the originals do: a number, or the name of a service.

/// The error if a text is not the number of a port or the name of a service.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct PortError;

/// Parses a port.
pub(crate) fn parse_port(text: &str) -> Result<u16, PortError> {
    match text.parse::<u64>() {
        // COMPAT(beanstalkd), COMPAT(gearmand): only the lower 16 bits of the number count.
        Ok(port) => Ok(port as u16),
        Err(_) => service_port(text).ok_or(PortError),
    }
}

/// Looks up the TCP port of a service in the system's list.
pub(crate) fn service_port(name: &str) -> Option<u16> {
    let services = std::fs::read_to_string("/etc/services").ok()?;
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let official = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?.parse().ok()?;
        (official == name || words.any(|alias| alias == name)).then_some(port)
    })
}
