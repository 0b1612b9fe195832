//! `jobs --check` counts the upgrades that are there.

use asynq_runtime::{
    Registry,
    job::{JobsLock, Verdict},
};

#[test]
fn an_upgrade_from_a_shape_that_no_sample_has_counts() {
    mod before {
        use asynq_runtime::prelude::*;

        use crate::arguments::OrderId;

        #[job(name = "lock:ship")]
        pub(super) async fn ship(order: OrderId, n: u32) -> JobResult {
            let _ = (order, n);
            Ok(())
        }
    }

    mod without {
        use asynq_runtime::prelude::*;

        use crate::arguments::OrderId;

        #[job(name = "lock:ship")]
        pub(super) async fn ship(order: OrderId, pieces: u64) -> JobResult {
            let _ = (order, pieces);
            Ok(())
        }
    }

    mod upgraded {
        use asynq_runtime::prelude::*;
        use serde::Deserialize;

        use crate::arguments::OrderId;

        #[derive(Deserialize)]
        struct Before {
            order: OrderId,
            n: u32,
        }

        fn from_before(old: Before) -> ship {
            ship { order: old.order, pieces: u64::from(old.n) }
        }

        #[job(name = "lock:ship", upgrade = from_before)]
        pub(super) async fn ship(order: OrderId, pieces: u64) -> JobResult {
            let _ = (order, pieces);
            Ok(())
        }
    }

    let in_part = JobsLock::default().with(&Registry::only::<(before::ship,)>().unwrap()).to_string();
    let line = in_part.lines().find(|line| line.starts_with('{')).unwrap();
    let mut unkept: serde_json::Value = serde_json::from_str(line).unwrap();
    unkept.as_object_mut().unwrap().remove("document").unwrap();
    for text in [in_part, unkept.to_string()] {
        let lock = JobsLock::parse(&text).unwrap();
        let found = lock.check(&Registry::only::<(without::ship,)>().unwrap()).swap_remove(0);
        assert!(matches!(found.verdict, Verdict::NeedsUpgrade(_)), "{found}");
        let found = lock.check(&Registry::only::<(upgraded::ship,)>().unwrap()).swap_remove(0);
        assert_eq!(found.verdict, Verdict::CannotBeTold, "{found}");
    }
}
