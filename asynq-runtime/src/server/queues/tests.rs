use asynq_grammar::names::check_queue;

use super::*;

fn entry(name: &str, weight: u32, limit: Option<usize>) -> Entry {
    Entry { pattern: Pattern::new(name, check_queue).unwrap(), weight, limit }
}

fn queues(weights: &[u32]) -> Queues {
    let entries: Vec<Entry> = weights.iter().enumerate().map(|(i, &w)| entry(&format!("q{i}"), w, None)).collect();
    Queues::new(&entries, [])
}

fn tenants(n: usize) -> Vec<QueueName> {
    (0..n).map(|i| QueueName::new(&format!("tenant:{i:04}")).unwrap()).collect()
}

fn open(queues: &Queues) -> Vec<Open> {
    (0..queues.len()).map(|queue| Open { queue, room: queues.limit(queue).unwrap_or(usize::MAX) }).collect()
}

fn sum(shares: &[(usize, usize)]) -> usize {
    shares.iter().map(|(_, n)| n).sum()
}

#[test]
fn a_queue_is_served_by_its_own_entry_or_else_by_the_first_pattern_that_fits() {
    let entries = [entry("tenant:*", 3, Some(1)), entry("tenant:vip", 9, Some(5)), entry("*", 1, None)];
    let known = ["tenant:a", "tenant:vip", "mails", "default"].map(|name| QueueName::new(name).unwrap());
    let queues = Queues::new(&entries, &known);
    let served: Vec<_> = queues.names().iter().enumerate().map(|(i, name)| (name.as_str(), queues.limit(i))).collect();
    assert_eq!(served, [("tenant:a", Some(1)), ("tenant:vip", Some(5)), ("default", None), ("mails", None)]);
    // A queue that is named need not exist. No queue of a pattern is known then.
    let queues = Queues::new(&entries, []);
    assert_eq!(queues.names(), [QueueName::new("tenant:vip").unwrap()]);
    let listed: Vec<_> = to_wire(&queues.entries).into_iter().map(|q| (q.queue.unwrap(), q.weight.unwrap())).collect();
    assert_eq!(listed, [("tenant:*".into(), 3), ("tenant:vip".into(), 9), ("*".into(), 1)]);
}

#[test]
fn each_order_has_every_queue_once() {
    let queues = queues(&[6, 3, 1, 1_000_000]);
    let (open, mut random) = (open(&queues), Rng::with_seed(7));
    for _ in 0..1_000 {
        let mut order: Vec<usize> = queues.order(&open, &mut random).iter().map(|open| open.queue).collect();
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}

#[test]
fn a_queue_comes_first_as_often_as_its_weight_says() {
    let queues = queues(&[60, 30, 10]);
    let (open, mut random) = (open(&queues), Rng::with_seed(42));
    let (mut first, mut second_after_0) = ([0u32; 3], [0u32; 3]);
    let rounds = 100_000;
    for _ in 0..rounds {
        let order = queues.order(&open, &mut random);
        first[order[0].queue] += 1;
        if order[0].queue == 0 {
            second_after_0[order[1].queue] += 1;
        }
    }
    for (queue, share) in [(0, 0.6), (1, 0.3), (2, 0.1)] {
        assert!((f64::from(first[queue]) / f64::from(rounds) - share).abs() < 0.01, "{first:?}");
    }
    let share = f64::from(second_after_0[1]) / f64::from(first[0]);
    assert!((share - 0.75).abs() < 0.01, "{second_after_0:?}");
}

#[test]
fn weights_are_divided_by_their_greatest_common_divisor_but_shown_as_declared() {
    let queues = queues(&[60, 30, 10]);
    assert_eq!(queues.weights, [6, 3, 1]);
    let listed: Vec<_> = to_wire(&queues.entries).into_iter().map(|q| q.weight).collect();
    assert_eq!(listed, [Some(60), Some(30), Some(10)]);
    // The same random numbers give the same order, divided or not.
    let (open, other) = (open(&queues), self::queues(&[6, 3, 1]));
    let (mut a, mut b) = (Rng::with_seed(3), Rng::with_seed(3));
    assert!((0..100).all(|_| queues.order(&open, &mut a) == other.order(&open, &mut b)));
}

#[test]
fn shares_never_exceed_the_free_slots_and_follow_the_weights() {
    let queues = queues(&[6, 3, 1]);
    let (open, mut random) = (open(&queues), Rng::with_seed(9));
    let mut sums = [0usize; 3];
    for free in (0..200).chain(std::iter::repeat_n(1, 30_000)) {
        let shares = queues.share(free, &open, &mut random);
        assert_eq!(sum(&shares), free);
        assert!(shares.iter().all(|&(_, n)| n > 0));
        for (queue, n) in shares {
            let exact = free as f64 * [0.6, 0.3, 0.1][queue];
            assert!((n as f64 - exact).abs() < 1.0, "{n} of {exact}");
            sums[queue] += n;
        }
    }
    let total: usize = sums.iter().sum();
    for (queue, share) in [(0, 0.6), (1, 0.3), (2, 0.1)] {
        assert!((sums[queue] as f64 / total as f64 - share).abs() < 0.01, "{sums:?}");
    }
    assert_eq!(queues.share(5, &open[1..2], &mut random), [(1, 5)]);
    assert_eq!(queues.share(5, &[], &mut random), []);
    // A few random numbers are enough for any number of slots.
    assert_eq!(sum(&queues.share(usize::MAX / 2, &open, &mut random)), usize::MAX / 2);
}

#[test]
fn a_queue_at_its_limit_leaves_its_slots_to_the_others() {
    let queues = queues(&[8, 1, 1]);
    let mut random = Rng::with_seed(11);
    let table = [
        // free, room of each        how many tasks each is asked for
        (10, [2, usize::MAX, 0], [2, 8, 0]),
        (10, [2, 3, 4], [2, 3, 4]),
        (10, [0, 0, 0], [0, 0, 0]),
        (10, [0, 0, 99], [0, 0, 10]),
        (0, [5, 5, 5], [0, 0, 0]),
        (20, [2, 9, 9], [2, 9, 9]),
    ];
    for (free, room, expected) in table {
        let open: Vec<Open> = room.iter().enumerate().map(|(queue, &room)| Open { queue, room }).collect();
        for shares in [queues.share(free, &open, &mut random), queues.probe(free, &open, &mut random)] {
            let mut by_queue = [0; 3];
            shares.iter().for_each(|&(queue, n)| by_queue[queue] = n);
            assert_eq!(by_queue, expected, "{free} {room:?}");
        }
    }
}

#[test]
fn the_weight_of_a_pattern_is_shared_by_its_queues() {
    let entries = [entry("default", 3, None), entry("tenant:*", 1, None)];
    let queues = Queues::new(&entries, &tenants(1000));
    let (open, mut random) = (open(&queues), Rng::with_seed(17));
    let (mut default, mut by_tenant) = (0, vec![0; 1000]);
    for _ in 0..500 {
        for (queue, n) in queues.share(40, &open, &mut random) {
            match queue {
                0 => default += n,
                tenant => by_tenant[tenant - 1] += n,
            }
        }
    }
    assert_eq!(default, 500 * 30);
    assert_eq!(by_tenant.iter().sum::<usize>(), 500 * 10);
    assert!(by_tenant.iter().all(|&n| n < 30), "no queue is preferred: {:?}", by_tenant.iter().max());
    let first = (0..1000).filter(|_| queues.order(&open, &mut random)[0].queue == 0).count();
    assert!((680..820).contains(&first), "{first}");
    // More slots than one call asks queues: the same weights, over fewer of them.
    let (mut default, mut reached) = (0, std::collections::HashSet::new());
    for _ in 0..100 {
        let shares = queues.share(400, &open, &mut random);
        assert!(shares.len() <= MOST_QUEUES_PER_CALL && sum(&shares) == 400, "{shares:?}");
        default += shares.iter().find(|(queue, _)| *queue == 0).map_or(0, |(_, n)| *n);
        reached.extend(shares.into_iter().map(|(queue, _)| queue));
    }
    assert!((29_000..=30_000).contains(&default), "{default}");
    assert!(reached.len() > 990, "no queue is left out for long: {}", reached.len());
}

#[test]
fn chunks_go_to_few_queues_and_each_gets_its_share_in_the_long_run() {
    let entries = [entry("default", 30, None), entry("tenant:*", 70, None)];
    let queues = Queues::new(&entries, &tenants(99));
    let (open, mut random) = (open(&queues), Rng::with_seed(23));
    let mut by_queue = vec![0; 100];
    for _ in 0..20_000 {
        let shares = queues.share_in_chunks(100, &open, 16, &mut random);
        assert_eq!(sum(&shares), 100);
        assert!(shares.len() <= 7 && shares.iter().filter(|&&(_, n)| n % 16 > 0).count() <= 1, "{shares:?}");
        shares.into_iter().for_each(|(queue, n)| by_queue[queue] += n);
    }
    assert!((590_000..610_000).contains(&by_queue[0]), "30 %: {}", by_queue[0]);
    // 1.4 million over 99.
    assert!(by_queue[1..].iter().all(|n| (13_000..15_400).contains(n)), "{by_queue:?}");

    // Slots that a limit leaves go to others, and a chunk is of no use where all get as much without.
    let limited = Queues::new(&[entry("tenant:*", 1, Some(2))], &tenants(99));
    let shares = limited.share_in_chunks(100, &self::open(&limited), 16, &mut random);
    assert!(sum(&shares) == 100 && shares.iter().all(|&(_, n)| n <= 2), "{shares:?}");
    assert_eq!(queues.share_in_chunks(5000, &open[..3], 16, &mut random).len(), 3);
    assert_eq!(queues.share_in_chunks(5, &open, 16, &mut random).len(), 1);
    assert_eq!(queues.share_in_chunks(5, &[], 16, &mut random), []);
}

#[test]
fn each_queue_comes_first_at_times() {
    let queues = queues(&[1, 9]);
    let (open, mut random) = (open(&queues), Rng::with_seed(7));
    let mut first = || queues.share_in_chunks(10, &open, 1, &mut random)[0].0;
    let firsts: std::collections::BTreeSet<usize> = (0..100).map(|_| first()).collect();
    assert_eq!(firsts, [0, 1].into());
}

#[test]
fn a_probe_asks_as_many_queues_as_it_can_for_exactly_the_free_slots() {
    let queues = queues(&[6, 3, 1]);
    let (open_queues, mut random) = (open(&queues), Rng::with_seed(5));
    for free in 0..20 {
        let shares = queues.probe(free, &open_queues, &mut random);
        assert_eq!(shares.len(), free.min(3));
        assert_eq!(sum(&shares), free);
    }
    // One slot goes to a queue as often as its weight says; beyond one for each, the slots are shared by weight.
    let (mut first, rounds) = ([0_u32; 3], 100_000);
    for _ in 0..rounds {
        let shares = queues.probe(1, &open_queues, &mut random);
        first[shares[0].0] += 1;
    }
    for (queue, share) in [(0, 0.6), (1, 0.3), (2, 0.1)] {
        assert!((f64::from(first[queue]) / f64::from(rounds) - share).abs() < 0.01, "{first:?}");
    }
    for free in 3..200 {
        for (queue, n) in queues.probe(free, &open_queues, &mut random) {
            let exact = 1.0 + (free - 3) as f64 * [0.6, 0.3, 0.1][queue];
            assert!((n as f64 - exact).abs() < 1.0, "{n} of {exact}");
        }
    }
    // A probe of a thousand queues asks no more than fit into one call.
    let many = Queues::new(&[entry("tenant:*", 1, Some(2))], &tenants(1000));
    let shares = many.probe(5_000, &open(&many), &mut random);
    assert_eq!((shares.len(), sum(&shares)), (MOST_QUEUES_PER_CALL, 2 * MOST_QUEUES_PER_CALL));
}

#[test]
fn strict_rank_is_by_weight_and_equal_weights_have_one_rank() {
    let queues = queues(&[1, 9, 5, 9]);
    assert_eq!(queues.ranked(), [vec![1, 3], vec![2], vec![0]]);
    let entries = [entry("low", 1, None), entry("tenant:*", 5, None), entry("mails", 5, None)];
    assert_eq!(Queues::new(&entries, &tenants(3)).ranked(), [vec![1, 2, 3, 4], vec![0]]);
}
