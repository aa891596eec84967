//! Ports as in the originals: a number, or the name of a service.

/// The text is neither a number nor a service.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct PortError;

/// Parses a port.
pub(crate) fn parse_port(text: &str) -> Result<u16, PortError> {
    match text.parse::<u64>() {
        // COMPAT(beanstalkd), COMPAT(gearmand): the system takes the lower 16 bits.
        Ok(port) => Ok(port as u16),
        Err(_) => service_port(text).ok_or(PortError),
    }
}

/// The TCP port of a service by its name, from the system's list.
pub(crate) fn service_port(name: &str) -> Option<u16> {
    let services = std::fs::read_to_string("/etc/services").ok()?;
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let official = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?.parse().ok()?;
        (official == name || words.any(|alias| alias == name)).then_some(port)
    })
}
