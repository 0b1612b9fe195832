//! A Redis on another machine: bytes pass through here, and each takes half a round trip longer.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use asynq_runtime::prelude::BoxError;

/// The time by which a round trip to Redis is longer: about that between two zones of one region of a cloud.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(1);
/// Chunks of one direction that may be under way.
const UNDER_WAY: usize = 4096;
const CHUNK: usize = 64 << 10;

/// Listens on a port of its own and passes connections on to `port` of this machine, a round trip away. Returns its port. It serves
/// until this program ends.
///
/// # Errors
///
/// There is no free port.
pub(super) fn before(port: u16) -> Result<u16, BoxError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = listener.local_addr()?.port();
    // Threads, unlike the `SlowNetwork` of the tests: a timer of tokio has steps of a millisecond, and the worker that is measured has
    // its runtime to itself.
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // A client whose connection ends at once reports that.
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
            let _ = connect(near, far);
        }
    });
    Ok(own)
}

fn connect(near: TcpStream, far: TcpStream) -> std::io::Result<()> {
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    pass(near.try_clone()?, far.try_clone()?);
    pass(far, near);
    Ok(())
}

/// Passes the bytes of one direction on, each half a round trip after it came, in chunks that do not wait for each other.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let (sender, chunks) = mpsc::sync_channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    thread::spawn(move || {
        let mut bytes = vec![0; CHUNK];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if sender.send((Instant::now() + ROUND_TRIP / 2, bytes[..n].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in chunks {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_whole_and_not_before_a_round_trip() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = before(listener.local_addr().unwrap().port()).unwrap();
        let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let question: Vec<u8> = (0..3 * CHUNK).map(|n| n as u8).collect();
        let echo = thread::spawn(move || {
            let mut bytes = vec![0; 3 * CHUNK];
            far.read_exact(&mut bytes).unwrap();
            far.write_all(&bytes).unwrap();
        });
        let began = Instant::now();
        near.write_all(&question).unwrap();
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).unwrap();
        assert!(began.elapsed() >= ROUND_TRIP, "{:?}", began.elapsed());
        assert_eq!(answer, question);
        echo.join().unwrap();
    }
}
