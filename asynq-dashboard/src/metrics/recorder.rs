//! The recorder of this program's metrics, unless the program has installed its own.

use std::{sync::OnceLock, thread, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Upper bounds of the histogram buckets, in seconds: from a wait of milliseconds over the default timeout of 30 minutes to a job of
/// hours.
const BUCKETS: [f64; 19] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0,
    21_600.0,
];
/// How often recorded samples are put into their buckets, so that they take no memory where nothing scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder, once per program; earlier metrics are not in it. `None` if the program has installed a
/// recorder itself: that recorder has the numbers, and shows them.
pub(crate) fn install() -> Option<&'static PrometheusHandle> {
    static INSTALLED: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS);
        let recorder = builder.ok()?.build_recorder();
        let handle = recorder.handle();
        ::metrics::set_global_recorder(recorder).ok()?;
        // The thread lives as long as the recorder: until the program ends.
        let upkeep = handle.clone();
        let thread = thread::Builder::new().name("asynq-metrics".to_owned());
        let spawned = thread.spawn(move || {
            loop {
                thread::sleep(UPKEEP);
                upkeep.run_upkeep();
            }
        });
        if let Err(error) = spawned {
            log!(warn, "no thread for metrics upkeep: samples stay in memory until a scrape ({error})");
        }
        Some(handle)
    });
    INSTALLED.get().and_then(Option::as_ref)
}
