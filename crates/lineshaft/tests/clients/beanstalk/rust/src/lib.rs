//! What the clients share: where the server is.

/// The port that the test gives.
pub fn port() -> u16 {
    let port = std::env::var("BEANSTALK_PORT").expect("BEANSTALK_PORT is set");
    port.parse().expect("BEANSTALK_PORT is a number")
}
