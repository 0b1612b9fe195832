//! Two connections that alternate: while Redis runs the script of one, the client reads the answer of the other and sends its next script.
//! So Redis always has a script to run, and its rate is not that of a client that waits.

use std::{io, iter, mem};

use asynq_runtime::prelude::BoxError;

use super::scripts::{Script, Tasks};

/// The connections. Each awaits its own answers.
#[derive(Debug)]
pub(super) struct Alternating([Script; Alternating::CONNECTIONS]);

impl Alternating {
    pub(super) const CONNECTIONS: usize = 2;

    /// # Errors
    ///
    /// The errors of [`Script::connect`].
    pub(super) fn connect(url: &str) -> Result<Self, BoxError> {
        Ok(Self([Script::connect(url)?, Script::connect(url)?]))
    }

    /// Enqueues tasks, `group` of them per script and `per_write` per write, of which each connection has one under way.
    ///
    /// # Errors
    ///
    /// Redis refused one.
    pub(super) fn enqueue(&mut self, tasks: &Tasks, group: usize, per_write: usize) -> io::Result<()> {
        let mut writes = tasks.groups(per_write);
        self.run(|_, script| match writes.next() {
            Some(write) => script.send_enqueue(write.chunks(group)),
            None => Ok(()),
        })
    }

    /// Settles and fetches `n` tasks per script until the queues are empty. Each connection works on a queue of its own, and on the
    /// next one once a fetch gave less than it requested; the connections share a single queue.
    ///
    /// # Errors
    ///
    /// Redis refused a script.
    pub(super) fn drain(&mut self, queues: impl Iterator<Item = String>, n: usize) -> io::Result<()> {
        let queues: Vec<_> = queues.collect();
        let shares = if queues.len() == 1 { Self::CONNECTIONS } else { 1 };
        let mut queues = queues.into_iter().flat_map(|queue| iter::repeat_n(queue, shares));
        self.run(|_, script| script.send_drain(n, &mut queues))
    }

    /// Enqueues, fetches and settles each group, with a script for each.
    ///
    /// # Errors
    ///
    /// Redis refused a script.
    pub(super) fn end_to_end(&mut self, tasks: &Tasks, group: usize) -> io::Result<()> {
        let (mut groups, mut stored) = (tasks.groups(group), [0; Self::CONNECTIONS]);
        self.run(|at, script| {
            if script.taken() > 0 {
                script.send_cycle(0)
            } else if stored[at] > 0 {
                script.send_cycle(mem::take(&mut stored[at]))
            } else if let Some(group) = groups.next() {
                stored[at] = group.len();
                script.send_enqueue(iter::once(group))
            } else {
                Ok(())
            }
        })
    }

    /// Lets `send` send the next scripts of one connection after the other, when its answers are read, until it has sent nothing.
    fn run(&mut self, mut send: impl FnMut(usize, &mut Script) -> io::Result<()>) -> io::Result<()> {
        for (at, script) in self.0.iter_mut().enumerate() {
            send(at, script)?;
        }
        while self.0.iter().any(Script::is_under_way) {
            for (at, script) in self.0.iter_mut().enumerate().filter(|(_, script)| script.is_under_way()) {
                script.receive()?;
                send(at, script)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use asynq_test_support::{Calls, Persistence, RedisServer};
    use hdrhistogram::Histogram;
    use redis::Connection;

    use super::{super::Limit, *};
    use crate::order::Order;

    /// Stores `n` waiting tasks.
    fn fill(redis: &mut Connection, queue: &str, n: usize) {
        for number in 0..n {
            let id = format!("{number:036}");
            let task = format!("asynq:{{{queue}}}:t:{id}");
            redis::cmd("HSET").arg(task).arg("msg").arg("x").exec(redis).unwrap();
            redis::cmd("LPUSH").arg(format!("asynq:{{{queue}}}:pending")).arg(id).exec(redis).unwrap();
        }
    }

    /// Drains these queues; returns how often Redis ran a script and took tasks.
    fn drain(server: &RedisServer, queues: &[&str], group: usize) -> (u64, u64) {
        let (mut redis, mut limit) = (server.connection(), Alternating::connect(&server.url()).unwrap());
        let before = Calls::ask(&mut redis);
        limit.drain(queues.iter().map(ToString::to_string), group).unwrap();
        let calls = Calls::ask(&mut redis) - &before;
        for queue in queues {
            let left: u64 = redis::cmd("EXISTS")
                .arg(format!("asynq:{{{queue}}}:pending"))
                .arg(format!("asynq:{{{queue}}}:active"))
                .query(&mut redis)
                .unwrap();
            assert_eq!(left, 0, "{queue}");
        }
        (calls.of("evalsha"), calls.of("rpop"))
    }

    #[test]
    fn both_connections_together_have_as_many_tasks_under_way_as_a_worker() {
        let group = |concurrency| Limit::Drain.group(&Order { concurrency, ..Order::default() });
        assert_eq!([1, 10, 100, 1_000].map(group), [1, 5, 50, 64], "and no script has more than that of a worker");
    }

    #[tokio::test]
    async fn both_connections_together_have_as_many_tasks_under_way_as_the_callers_beside_them() {
        let server = RedisServer::start(Persistence::None);
        let mut redis = server.connection();
        // 512 tasks are eight scripts of 64 in one write of 1,000, and nine in writes of 500 and 12.
        for (limit, n, scripts) in [(Limit::EnqueueConcurrent, 64, 2), (Limit::EnqueueBulk, 512, 9)] {
            let order = Order { url: server.url(), n, concurrency: 64, payload_bytes: 100, ..Order::default() };
            let (before, tasks) = (Calls::ask(&mut redis), Tasks::new(&order));
            limit.on_redis(&order, &tasks, &mut Histogram::new(3).unwrap()).await.unwrap();
            let calls = Calls::ask(&mut redis) - &before;
            assert_eq!(calls.of("evalsha"), scripts, "{limit:?}");
        }
    }

    #[test]
    fn the_limits_beside_a_drain_connect_within_their_time_and_no_others_do() {
        let server = RedisServer::start(Persistence::None);
        let (mut redis, order) = (server.connection(), Order { url: server.url(), ..Order::default() });
        for (limit, is_within) in
            [(Limit::Drain, true), (Limit::Get, true), (Limit::Enqueue, false), (Limit::EndToEnd, false)]
        {
            let (meter, ()) = limit.connected(&order, || Ok(redis::cmd("PING").exec(&mut redis)?)).unwrap();
            let usage = meter.stop().unwrap().redis.unwrap();
            assert_eq!(usage.commands > 0.0, is_within, "{limit:?}");
        }
    }

    #[test]
    fn both_connections_share_one_queue() {
        let server = RedisServer::start(Persistence::None);
        fill(&mut server.connection(), "one", 32);
        assert_eq!(drain(&server, &["one"], 16), (4, 4), "each takes a group, settles it, and finds the queue empty");
    }

    #[test]
    fn a_queue_whose_fetch_gave_less_than_it_requested_is_not_fetched_again() {
        let server = RedisServer::start(Persistence::None);
        let queues = ["a", "b", "c", "d", "e"];
        queues.iter().for_each(|queue| fill(&mut server.connection(), queue, 3));
        assert_eq!(drain(&server, &queues, 16), (10, 5), "one fetch and one settle of each queue");
    }

    #[test]
    fn an_end_to_end_run_settles_all_that_it_enqueues() {
        let server = RedisServer::start(Persistence::None);
        let order = Order { n: 50, payload_bytes: 100, ..Order::default() };
        Alternating::connect(&server.url()).unwrap().end_to_end(&Tasks::new(&order), 16).unwrap();
        let settled: u64 = redis::cmd("GET").arg("asynq:{bench}:processed").query(&mut server.connection()).unwrap();
        assert_eq!(settled, 50);
    }
}
