//! The beanstalkd dialect: bytes to requests and outcomes to bytes, without I/O.
