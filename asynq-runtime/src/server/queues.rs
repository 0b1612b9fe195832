//! Which queues to ask for how much: by weight, or strictly by rank (PROTOCOL §7.3).

use super::dice::Dice;
use crate::task::{QueueName, QueueWeight};

/// The queues that a server serves; never empty.
#[derive(Debug)]
pub(crate) struct Queues {
    names: Vec<QueueName>,
    declared: Vec<u32>,
    /// The weights divided by their greatest common divisor.
    weights: Vec<u64>,
    /// Greatest weight first; equal ones as declared.
    ranked: Vec<usize>,
    strict: bool,
}

impl Queues {
    pub(crate) fn new(queues: Vec<(QueueName, u32)>, strict: bool) -> Self {
        let (names, declared): (Vec<_>, Vec<u32>) = queues.into_iter().unzip();
        let divisor = declared.iter().copied().fold(0, gcd).max(1);
        let weights = declared.iter().map(|weight| u64::from(weight / divisor)).collect();
        let mut ranked: Vec<usize> = (0..names.len()).collect();
        ranked.sort_by_key(|&i| std::cmp::Reverse(declared[i]));
        Self { names, declared, weights, ranked, strict }
    }

    pub(crate) fn names(&self) -> &[QueueName] {
        &self.names
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// The weights as they were declared, which is what asynq shows.
    pub(crate) fn shown(&self) -> Vec<QueueWeight> {
        let pairs = self.names.iter().zip(&self.declared);
        pairs
            .map(|(name, &weight)| QueueWeight {
                queue: Some(name.as_str().to_owned()),
                weight: Some(i32::try_from(weight).unwrap_or(i32::MAX)),
            })
            .collect()
    }

    /// The queues by rank.
    pub(crate) fn ranked(&self) -> &[usize] {
        &self.ranked
    }

    /// Every queue once: a weighted sample without replacement. A queue comes first with the chance of its weight, and
    /// so on among the rest.
    pub(crate) fn order(&self, dice: &mut Dice) -> Vec<usize> {
        let mut left: Vec<usize> = (0..self.names.len()).collect();
        let mut order = Vec::with_capacity(left.len());
        while let Some(place) = self.draw(&left, dice) {
            order.push(left.remove(place));
        }
        order
    }

    /// Shares `free` slots among the `open` queues, each slot drawn by weight, as if every free worker asked for itself;
    /// what it returns never asks for more than `free` in all.
    pub(crate) fn share(&self, free: usize, open: &[usize], dice: &mut Dice) -> Vec<(usize, usize)> {
        let mut asked = vec![0; open.len()];
        match open {
            [] => {}
            [_] => asked[0] = free,
            _ => {
                for _ in 0..free {
                    if let Some(place) = self.draw(open, dice) {
                        asked[place] += 1;
                    }
                }
            }
        }
        open.iter().copied().zip(asked).filter(|&(_, n)| n > 0).collect()
    }

    /// Shares `free` slots so that as many queues as possible are asked at all, in one round trip: for a server that
    /// knows of no work anywhere, where a weight has nothing to decide yet.
    pub(crate) fn probe(&self, free: usize, dice: &mut Dice) -> Vec<(usize, usize)> {
        let order = self.order(dice);
        let reached = &order[..order.len().min(free)];
        let mut asked: Vec<(usize, usize)> = reached.iter().map(|&queue| (queue, 1)).collect();
        for (queue, n) in self.share(free - reached.len(), reached, dice) {
            if let Some(entry) = asked.iter_mut().find(|(known, _)| *known == queue) {
                entry.1 += n;
            }
        }
        asked
    }

    /// A place in `among`, drawn by weight.
    fn draw(&self, among: &[usize], dice: &mut Dice) -> Option<usize> {
        let total: u64 = among.iter().map(|&queue| self.weights[queue]).sum();
        let mut ticket = dice.below(total);
        among.iter().position(|&queue| {
            let weight = self.weights[queue];
            let hit = ticket < weight;
            ticket = ticket.saturating_sub(weight);
            hit
        })
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(weights: &[u32], strict: bool) -> Queues {
        let named = weights.iter().enumerate().map(|(i, &w)| (QueueName::new(&format!("q{i}")).unwrap(), w));
        Queues::new(named.collect(), strict)
    }

    #[test]
    fn each_order_has_every_queue_once() {
        let queues = queues(&[6, 3, 1, 1_000_000], false);
        let mut dice = Dice::seeded(7);
        for _ in 0..1_000 {
            let mut order = queues.order(&mut dice);
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn a_queue_comes_first_as_often_as_its_weight_says() {
        let queues = queues(&[60, 30, 10], false);
        let mut dice = Dice::seeded(42);
        let (mut first, mut second_after_0) = ([0u32; 3], [0u32; 3]);
        let rounds = 100_000;
        for _ in 0..rounds {
            let order = queues.order(&mut dice);
            first[order[0]] += 1;
            if order[0] == 0 {
                second_after_0[order[1]] += 1;
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
        let queues = queues(&[60, 30, 10], false);
        assert_eq!(queues.weights, [6, 3, 1]);
        let shown: Vec<_> = queues.shown().into_iter().map(|q| q.weight).collect();
        assert_eq!(shown, [Some(60), Some(30), Some(10)]);
        // The same throws give the same order, divided or not.
        let other = self::queues(&[6, 3, 1], false);
        let (mut a, mut b) = (Dice::seeded(3), Dice::seeded(3));
        assert!((0..100).all(|_| queues.order(&mut a) == other.order(&mut b)));
    }

    #[test]
    fn shares_never_exceed_the_free_slots_and_follow_the_weights() {
        let queues = queues(&[6, 3, 1], false);
        let mut dice = Dice::seeded(9);
        let mut sums = [0usize; 3];
        for free in 0..200 {
            let shares = queues.share(free, &[0, 1, 2], &mut dice);
            assert_eq!(shares.iter().map(|(_, n)| n).sum::<usize>(), free);
            assert!(shares.iter().all(|&(_, n)| n > 0));
            for (queue, n) in shares {
                sums[queue] += n;
            }
        }
        let total: usize = sums.iter().sum();
        for (queue, share) in [(0, 0.6), (1, 0.3), (2, 0.1)] {
            assert!((sums[queue] as f64 / total as f64 - share).abs() < 0.02, "{sums:?}");
        }
        assert_eq!(queues.share(5, &[1], &mut dice), [(1, 5)]);
        assert_eq!(queues.share(5, &[], &mut dice), []);
    }

    #[test]
    fn a_probe_asks_as_many_queues_as_it_can_for_exactly_the_free_slots() {
        let queues = queues(&[6, 3, 1], false);
        let mut dice = Dice::seeded(5);
        for free in 0..20 {
            let asked = queues.probe(free, &mut dice);
            assert_eq!(asked.len(), free.min(3));
            assert_eq!(asked.iter().map(|(_, n)| n).sum::<usize>(), free);
        }
    }

    #[test]
    fn strict_rank_is_by_weight_and_then_as_declared() {
        let queues = queues(&[1, 9, 5, 9], true);
        assert!(queues.is_strict());
        assert_eq!(queues.ranked(), [1, 3, 2, 0]);
    }
}
