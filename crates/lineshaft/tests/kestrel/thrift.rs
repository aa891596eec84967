//! Kestrel's thrift service.

mod clients;
mod socket;
