//! The part that all client programs share: the server's port.

/// The port, which the test sets in the environment.
pub fn port() -> u16 {
    let port = std::env::var("BEANSTALK_PORT").expect("BEANSTALK_PORT is set");
    port.parse().expect("BEANSTALK_PORT is a number")
}
