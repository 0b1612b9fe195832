//! Decides how many tasks are fetched for one permit of the layers.

/// Decides how many tasks are fetched for one permit: one, unless the layers have been ready at once for a while. Then each
/// batch is up to twice as large, until the layers are not ready.
#[derive(Debug, Default)]
pub(crate) struct BatchController {
    /// Starts in a row for which the layers were ready at once.
    ready: usize,
}

impl BatchController {
    /// How many starts in a row come one by one.
    const PROBATION: usize = 64;

    /// Returns how many tasks to fetch at most.
    pub(crate) fn most(&self) -> usize {
        // As many tasks as were started in batches so far, and one more: each full batch doubles the next.
        self.ready.saturating_sub(Self::PROBATION).saturating_add(1)
    }

    /// Notes that a task was started.
    pub(crate) fn started(&mut self) {
        self.ready = self.ready.saturating_add(1);
    }

    /// Notes that the layers were not ready.
    pub(crate) fn stalled(&mut self) {
        self.ready = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_grows_after_a_while_and_shrinks_at_once() {
        let mut batch_controller = BatchController::default();
        for _ in 0..BatchController::PROBATION {
            assert_eq!(batch_controller.most(), 1);
            batch_controller.started();
        }
        for expected in [1, 2, 4, 8, 16] {
            let batch = batch_controller.most();
            assert_eq!(batch, expected);
            (0..batch).for_each(|_| batch_controller.started());
        }
        batch_controller.stalled();
        assert_eq!(batch_controller.most(), 1);
    }
}
