//! A job's life, with the crate beanstalkd.

use beanstalkd::Beanstalkd;

const TUBE: &str = "clients-crate-beanstalkd";

fn main() {
    let mut client = Beanstalkd::connect("127.0.0.1", test_clients::port()).unwrap();
    client.tube(TUBE).unwrap();
    assert_eq!(client.watch(TUBE).unwrap(), 2);
    client.ignore("default").unwrap();

    let put_id = client.put("hello", 10, 0, 30).unwrap();
    let (id, body) = client.reserve().unwrap();
    assert_eq!(id, put_id);
    assert_eq!(body, "hello");
    client.delete(id).unwrap();

    let statistics = client.stats().unwrap();
    assert_eq!(statistics.get("max-job-size").map(String::as_str), Some("65535"));
}
