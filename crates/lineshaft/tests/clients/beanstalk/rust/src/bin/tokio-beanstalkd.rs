//! A job's life, with the crate tokio-beanstalkd. The crate uses futures of version 0.1, and every
//! command consumes the client.

use futures::Future;
use tokio::runtime::Runtime;
use tokio_beanstalkd::Beanstalkd;

const TUBE: &str = "clients-tokio-beanstalkd";

fn main() {
    let server = format!("127.0.0.1:{}", test_clients::port()).parse().unwrap();
    let whole_life = Beanstalkd::connect(&server)
        .and_then(|client| client.using(TUBE))
        .and_then(|(client, used)| {
            used.unwrap();
            client.watch(TUBE)
        })
        .and_then(|(client, watched)| {
            assert_eq!(watched.unwrap(), 2);
            client.put(1, 0, 30, &b"hello"[..])
        })
        .and_then(|(client, put)| {
            put.unwrap();
            client.reserve()
        })
        .and_then(|(client, reserved)| {
            let job = reserved.unwrap();
            assert_eq!(job.data, b"hello");
            client.release(job.id, 1, 0)
        })
        .and_then(|(client, released)| {
            released.unwrap();
            client.reserve()
        })
        .and_then(|(client, reserved)| client.delete(reserved.unwrap().id));
    let (_, deleted) = Runtime::new().unwrap().block_on(whole_life).unwrap();
    deleted.unwrap();
}
