//! A job's whole life, with the crate beanstalkc.

use std::time::Duration;

use beanstalkc::Beanstalkc;

const TUBE: &str = "clients-crate-beanstalkc";

fn main() {
    let connect = Beanstalkc::new().host("127.0.0.1").port(test_clients::port()).connect();
    let mut client = connect.unwrap();
    assert_eq!(client.use_tube(TUBE).unwrap(), TUBE);
    client.watch(TUBE).unwrap();
    client.ignore("default").unwrap();

    let id = client.put(b"hello", 10, Duration::ZERO, Duration::from_secs(30)).unwrap();
    let job = client.reserve_with_timeout(Duration::from_secs(1)).unwrap();
    assert_eq!(job.id(), id);
    assert_eq!(job.body(), b"hello");
    client.touch(id).unwrap();
    client.release(id, 5, Duration::from_secs(60)).unwrap();
    assert_eq!(client.peek_delayed().unwrap().id(), id);
    client.kick_job(id).unwrap();

    client.reserve().unwrap();
    client.bury(id, 3).unwrap();
    assert_eq!(client.kick(5).unwrap(), 1);

    client.reserve().unwrap();
    let of_job = client.stats_job(id).unwrap();
    assert_eq!(of_job.get("kicks").map(String::as_str), Some("2"));
    client.pause_tube(TUBE, Duration::ZERO).unwrap();
    client.delete(id).unwrap();
    assert!(client.reserve_with_timeout(Duration::ZERO).is_err());

    let of_tube = client.stats_tube(TUBE).unwrap();
    assert_eq!(of_tube.get("name").map(String::as_str), Some(TUBE));
    assert!(client.tubes().unwrap().iter().any(|tube| tube == "default"));
}
