//! The throwaway scripts, and the tasks they work on.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use asynq_runtime::{
    Bytes,
    job::{JobOptions, PreparedTask},
    prelude::BoxError,
    task::TaskMessage,
};
use redis::{ConnectionAddr, IntoConnectionInfo};
use uuid::Uuid;

use super::resp::Resp;
use crate::{order::Order, queue::QUEUE, task};

const ENQUEUE: &str = include_str!("enqueue.lua");
const FETCH: &str = include_str!("fetch.lua");
const SETTLE: &str = include_str!("settle.lua");

/// The id and the message of a task.
pub(super) type Task = (String, Vec<u8>);

/// Tasks that are not enqueued yet.
#[derive(Debug, Default)]
pub(super) struct Tasks(Vec<Task>);

impl Tasks {
    /// Makes the tasks that our client would write.
    pub(super) fn new(order: &Order) -> Self {
        Self((0..order.n).map(|number| written(task::task(number, order.payload_bytes))).collect())
    }

    /// Returns the tasks in groups of `size`.
    pub(super) fn groups(&self, size: usize) -> std::slice::Chunks<'_, Task> {
        self.0.chunks(size)
    }
}

/// A connection that knows the scripts, and the tasks that it has fetched and not settled.
#[derive(Debug)]
pub(crate) struct Script {
    redis: Resp,
    enqueue: Vec<u8>,
    cycle: Vec<u8>,
    /// The ids that were taken, one after the other, each of [`ID`] bytes.
    taken: Vec<u8>,
    /// The keys of the queue that it works on.
    keys: Keys,
    /// Answers that are not read yet.
    open: usize,
    /// The number of tasks that the last cycle requested.
    requested: usize,
}

#[derive(Debug)]
struct Keys {
    /// Prefix of the task hashes.
    tasks: String,
    /// `pending`, `paused`, `active`, `lease`, the counter of the day and that of all days, in the order of the scripts' keys.
    of_cycle: [String; 6],
}

impl Keys {
    fn of(queue: &str) -> Self {
        let key = |name: &str| format!("asynq:{{{queue}}}:{name}");
        let today = chrono::Utc::now().format("processed:%Y-%m-%d").to_string();
        let of_cycle = ["pending", "paused", "active", "lease", &today, "processed"].map(key);
        Self { tasks: key("t:"), of_cycle }
    }
}

/// Length of an id.
const ID: usize = 36;

impl Script {
    /// Connects with the user, the password and the database of the URL.
    ///
    /// # Errors
    ///
    /// The URL is not that of one Redis without TLS, or it does not answer.
    pub(crate) fn connect(url: &str) -> Result<Self, BoxError> {
        let info = url.into_connection_info()?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err("the limit needs a redis:// URL".into()) };
        let (mut redis, settings) = (Resp::connect(&format!("{host}:{port}"))?, info.redis_settings());
        if let Some(password) = settings.password() {
            let words = [Some("AUTH"), settings.username(), Some(password)].into_iter().flatten();
            redis.call(&words.map(str::as_bytes).collect::<Vec<_>>(), |_| {})?;
        }
        redis.call(&[b"SELECT", settings.db().to_string().as_bytes()], |_| {})?;
        let enqueue = load(&mut redis, ENQUEUE)?;
        let cycle = format!("{SETTLE}\n{FETCH}\nsettle()\nreturn fetch(tonumber(ARGV[2]), ARGV[3])");
        let cycle = load(&mut redis, &cycle)?;
        redis.call(&[b"SADD", b"asynq:queues", QUEUE.as_bytes()], |_| {})?;
        Ok(Self { redis, enqueue, cycle, taken: Vec::new(), keys: Keys::of(QUEUE), open: 0, requested: 0 })
    }

    /// Enqueues one task, as a program would that knows nothing but asynq's keys.
    ///
    /// # Errors
    ///
    /// Redis refused it.
    pub(crate) fn enqueue_one(&mut self, task: impl Into<PreparedTask>) -> io::Result<()> {
        self.enqueue(&[written(task)])
    }

    /// Enqueues one group.
    ///
    /// # Errors
    ///
    /// Redis refused it.
    pub(super) fn enqueue(&mut self, group: &[Task]) -> io::Result<()> {
        self.send_enqueue(std::iter::once(group))?;
        self.receive()
    }

    /// Sends enqueues of groups, a script each, in one write.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub(super) fn send_enqueue<'a>(&mut self, groups: impl Iterator<Item = &'a [Task]>) -> io::Result<()> {
        let now = since_epoch().as_nanos().to_string();
        for group in groups {
            self.redis.begin(6 + 2 * group.len());
            let (pending, tasks) = (&self.keys.of_cycle[0], &self.keys.tasks);
            for word in
                [b"EVALSHA".as_slice(), &self.enqueue, b"1", pending.as_bytes(), tasks.as_bytes(), now.as_bytes()]
            {
                self.redis.word(word);
            }
            for (id, message) in group {
                self.redis.word(id.as_bytes());
                self.redis.word(message);
            }
            self.open += 1;
        }
        self.redis.send()
    }

    /// Settles the tasks that were taken and takes up to `n` more.
    ///
    /// # Errors
    ///
    /// Redis refused it.
    pub(super) fn settle_and_fetch(&mut self, n: usize) -> io::Result<()> {
        self.send_cycle(n)?;
        self.receive()
    }

    /// Sends a script that settles the tasks that were taken and takes up to `n` more.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub(super) fn send_cycle(&mut self, n: usize) -> io::Result<()> {
        self.cycle(n);
        self.redis.send()
    }

    /// Sends the next scripts of a drain: the tasks that were taken are settled, and up to `n` more are taken. A queue whose fetch gave
    /// less than it requested is empty, and the fetch in the same write goes to the next queue. Nothing is sent at the end.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub(super) fn send_drain(&mut self, n: usize, queues: &mut impl Iterator<Item = String>) -> io::Result<()> {
        if self.requested > 0 && self.taken() == self.requested {
            self.cycle(n);
        } else {
            if self.taken() > 0 {
                self.cycle(0);
            }
            if let Some(queue) = queues.next() {
                self.keys = Keys::of(&queue);
                self.cycle(n);
            }
        }
        self.redis.send()
    }

    /// Returns the number of tasks that were taken and not settled.
    pub(super) fn taken(&self) -> usize {
        self.taken.len() / ID
    }

    /// Returns whether there are answers to read.
    pub(super) fn is_under_way(&self) -> bool {
        self.open > 0
    }

    /// Reads the answers to all that was sent.
    ///
    /// # Errors
    ///
    /// Redis refused a script, or the connection is gone.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        for _ in 0..std::mem::take(&mut self.open) {
            let (taken, mut is_id) = (&mut self.taken, false);
            self.redis.reply(|text| {
                is_id = !is_id;
                if is_id {
                    taken.extend_from_slice(text);
                }
            })?;
        }
        Ok(())
    }

    /// Stores the messages of tasks as plain values.
    ///
    /// # Errors
    ///
    /// Redis refused one.
    pub(super) fn set(&mut self, tasks: &Tasks) -> io::Result<()> {
        for (number, (_, message)) in tasks.0.iter().enumerate() {
            self.redis.call(&[b"SET", plain(number as u64).as_bytes(), message], |_| {})?;
        }
        Ok(())
    }

    /// Reads the first `n` of those values, `group` of them in one write.
    ///
    /// # Errors
    ///
    /// A value is not there.
    pub(super) fn get(&mut self, n: u64, group: usize) -> io::Result<()> {
        let mut read = 0;
        for first in (0..n).step_by(group) {
            let numbers = first..n.min(first + group as u64);
            for number in numbers.clone() {
                self.redis.command(&[b"GET", plain(number).as_bytes()]);
            }
            self.redis.send()?;
            numbers.into_iter().try_for_each(|_| self.redis.reply(|_| read += 1))?;
        }
        if read == n { Ok(()) } else { Err(io::Error::other(format!("{read} of {n} values"))) }
    }

    /// Deletes those values.
    ///
    /// # Errors
    ///
    /// Redis refused it.
    pub(crate) fn forget(&mut self, n: u64) -> io::Result<()> {
        for number in 0..n {
            self.redis.call(&[b"UNLINK", plain(number).as_bytes()], |_| {})?;
        }
        Ok(())
    }

    /// Writes a script that settles the tasks that were taken and takes up to `n` more.
    fn cycle(&mut self, n: usize) {
        self.requested = n;
        self.open += 1;
        let (n, now) = (n.to_string(), since_epoch().as_secs());
        let (lease, day_ends) = ((now + 30).to_string(), (now + 90 * 86_400).to_string());
        self.redis.begin(13 + self.taken());
        [b"EVALSHA".as_slice(), &self.cycle, b"6"].into_iter().for_each(|word| self.redis.word(word));
        let Keys { tasks, of_cycle } = &self.keys;
        of_cycle.iter().chain([tasks, &n, &lease, &day_ends]).for_each(|word| self.redis.word(word.as_bytes()));
        self.taken.chunks(ID).for_each(|id| self.redis.word(id));
        self.taken.clear();
    }
}

/// Returns the id and the message of a new task.
fn written(task: impl Into<PreparedTask>) -> Task {
    let (task, id) = (task.into(), Uuid::now_v7().to_string());
    let message = TaskMessage {
        r#type: task.name().to_owned(),
        payload: Bytes::copy_from_slice(task.payload()),
        id: id.clone(),
        queue: QUEUE.to_owned(),
        retry: JobOptions::DEFAULT_RETRY as i32,
        timeout: JobOptions::DEFAULT_TIMEOUT.as_secs() as i64,
        ..TaskMessage::default()
    };
    (id, message.encode())
}

/// Returns the key of a message as a plain value.
fn plain(number: u64) -> String {
    format!("bench:plain:{number}")
}

fn load(redis: &mut Resp, script: &str) -> io::Result<Vec<u8>> {
    let mut sha = Vec::new();
    redis.call(&[b"SCRIPT", b"LOAD", script.as_bytes()], |text| sha.extend_from_slice(text))?;
    Ok(sha)
}

fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use asynq_test_support::RedisServer;

    use super::*;

    #[test]
    fn the_limit_works_in_the_database_of_its_url_with_the_password_there() {
        let server = RedisServer::with_password("secret");
        let url = server.url().replace("/0", "/3");
        let order = Order { n: 1, payload_bytes: 100, ..Order::default() };
        Script::connect(&url).unwrap().enqueue(&Tasks::new(&order).0).unwrap();
        let mut redis = server.connection();
        let mut waiting = |database: u64| -> u64 {
            redis::cmd("SELECT").arg(database).exec(&mut redis).unwrap();
            redis::cmd("LLEN").arg("asynq:{bench}:pending").query(&mut redis).unwrap()
        };
        assert_eq!((waiting(0), waiting(3)), (0, 1));
    }
}
