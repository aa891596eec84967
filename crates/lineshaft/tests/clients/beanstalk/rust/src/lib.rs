//! What the clients share: the server's port.

/// The port from the test.
pub fn port() -> u16 {
    let port = std::env::var("BEANSTALK_PORT").expect("BEANSTALK_PORT is set");
    port.parse().expect("BEANSTALK_PORT is a number")
}
