//! A network of a given rate and latency: a TCP proxy before a server.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// Bytes that travel together, as in one packet.
const PIECE: usize = 1460;
/// Pieces that one direction buffers besides those under way.
const WAITING: u64 = 8;
/// The size of the receive buffer for a client's bytes. With a larger one the proxy would accept bytes at once that the network
/// has not carried yet, and the client could not notice its rate.
const RECEIVED: u32 = 16 << 10;

/// The rate and the latency of a network.
#[derive(Debug, Clone, Copy)]
pub struct NetworkOptions {
    /// The rate in each direction.
    pub bits_per_second: u64,
    /// The latency of both directions together.
    pub round_trip: Duration,
}

/// The proxy; it lives on the runtime that started it, and ends when this handle is dropped.
#[derive(Debug)]
pub struct SlowNetwork {
    port: u16,
    silence: watch::Sender<Silence>,
    accepted: Arc<AtomicU64>,
    carried: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl SlowNetwork {
    /// Starts a network to the server on `port` of this machine.
    pub async fn to(port: u16, options: NetworkOptions) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVED).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let (silence, silenced) = watch::channel(Silence::default());
        let (carried, accepted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let direction = Direction { options, connection: 0, silence: silenced, carried: Arc::clone(&carried) };
        Self {
            port: listener.local_addr().unwrap().port(),
            silence,
            accepted: Arc::clone(&accepted),
            carried,
            task: tokio::spawn(accept(listener, port, direction, accepted)),
        }
    }

    /// A URL of the server, through this network.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Bytes carried so far, in both directions.
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Carries nothing more without closing a connection, as a network does whose cable was pulled out.
    pub fn freeze(&self) {
        self.silence.send_modify(|silence| silence.of_all = true);
    }

    /// Continues after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.silence.send_modify(|silence| silence.of_all = false);
    }

    /// Carries nothing more on the connections that there are, without closing them, as a router does that has
    /// forgotten them. New connections work.
    pub fn forget_connections(&self) {
        let accepted = self.accepted.load(Ordering::Relaxed);
        self.silence.send_modify(|silence| silence.of_connections_before = accepted);
    }
}

impl Drop for SlowNetwork {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The connections on which nothing is carried.
#[derive(Debug, Clone, Copy, Default)]
struct Silence {
    of_all: bool,
    /// The number of the first connection that works.
    of_connections_before: u64,
}

/// One direction of one connection.
#[derive(Clone)]
struct Direction {
    options: NetworkOptions,
    /// The number of the connection.
    connection: u64,
    silence: watch::Receiver<Silence>,
    carried: Arc<AtomicU64>,
}

async fn accept(listener: TcpListener, port: u16, direction: Direction, accepted: Arc<AtomicU64>) {
    // The connections end with this task.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let direction = Direction { connection: accepted.fetch_add(1, Ordering::Relaxed), ..direction.clone() };
        connections.spawn(async move {
            if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::join!(direction.clone().carry(from_client, to_server), direction.carry(from_server, to_client));
            }
        });
    }
}

impl Direction {
    async fn carry(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let latency = self.options.round_trip / 2;
        let under_way =
            self.options.bits_per_second * u64::try_from(latency.as_millis()).unwrap() / 8_000 / PIECE as u64;
        let (sender, mut pieces) = mpsc::channel(usize::try_from(under_way + WAITING).unwrap());
        let takes = async move {
            let mut buffer = [0; PIECE];
            while let Ok(n @ 1..) = from.read(&mut buffer).await {
                if sender.send((Instant::now() + latency, buffer[..n].to_vec())).await.is_err() {
                    break;
                }
            }
        };
        let gives = async {
            let mut silence = self.silence.clone();
            let mut is_free_at = Instant::now();
            while let Some((due, piece)) = pieces.recv().await {
                // A piece follows the one before it, however late this task was woken for it: the rate is right in the long run.
                let micros = piece.len() as u64 * 8_000_000 / self.options.bits_per_second;
                is_free_at = is_free_at.max(due) + Duration::from_micros(micros);
                sleep_until(is_free_at).await;
                let works = |silence: &Silence| !silence.of_all && silence.of_connections_before <= self.connection;
                let _ = silence.wait_for(works).await;
                to.write_all(&piece).await?;
                self.carried.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
            // A client may close one half of its connection.
            to.shutdown().await
        };
        let _: ((), io::Result<()>) = tokio::join!(takes, gives);
    }
}
