//! Ports for servers that may end and start again in the middle of a test.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// Below the ports that a system gives to outgoing connections (Linux from 32768 on, macOS from 49152). Between the choice and
/// the server's start, and while a server is down, another test's connection could be given such a port, and so could the
/// connection that looks for the server: it would then have connected to itself.
const PORTS: Range<u16> = 12_000..32_000;

/// The number of ports that this program has tried.
static TRIED: AtomicU64 = AtomicU64::new(0);

/// Returns a port without a listener now, which this program has not given to another test. Test programs that run at the
/// same time begin at different ports, but may meet; then the server fails to start and another port is tried.
pub fn free_port() -> u16 {
    let first = u64::from(std::process::id()).wrapping_mul(7919);
    let mut tries = (0..PORTS.len()).map(|_| {
        let place = (first + TRIED.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u64;
        PORTS.start + u16::try_from(place).expect("it is less than their number")
    });
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    tries.find(is_free).expect("one of 20,000 ports is free")
}
