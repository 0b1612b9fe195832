//! Schedules in every form, without the prelude.

/// Zones with every sign that a name can have.
mod zones {
    #[asynq_cron::periodic("0 9 * * *", tz = "America/Port-au-Prince")]
    pub(crate) async fn hyphens() {}

    #[asynq_cron::periodic("0 9 * * *", tz = "Etc/GMT+5", jitter = "1500ms")]
    pub(crate) async fn plus() {}

    #[asynq_cron::periodic("0 9 * * *", tz = "Etc/GMT-14", missed = "all(3)")]
    fn minus(_tick: asynq_cron::Tick) {}

    #[asynq_cron::periodic(r"CRON_TZ=America/Argentina/Buenos_Aires 0 9 L * *", overlap = "replace")]
    pub(crate) async fn prefix(
        _ctx: &asynq_runtime::JobContext,
        tick: ::asynq_cron::Tick,
        numbers: asynq_runtime::State<Vec<u8>>,
    ) -> Result<u64, std::num::TryFromIntError> {
        u64::try_from(tick.scheduled_at().timestamp()).map(|at| at + numbers.len() as u64)
    }
}

/// A job with a schedule and every option of a job.
#[asynq_cron::periodic(
    "@every 90s",
    queue = "low",
    retry = 2,
    timeout = "3m",
    unique = "1h",
    retention = "2h",
    codec = "json"
)]
async fn interval() {}

#[test]
fn the_entries_are_those_of_this_program() {
    let is_here = |entry: &&asynq_cron::PeriodicEntry| !entry.job.name.starts_with("user:");
    let entries: Vec<_> = asynq_cron::PeriodicEntry::linked().into_iter().filter(is_here).collect();
    let names: Vec<_> = entries.iter().map(|entry| entry.job.name).collect();
    assert_eq!(names, ["hyphens", "interval", "minus", "plus", "prefix"]);
    for entry in entries {
        let periodic = entry.to_periodic().expect(entry.job.name);
        assert!(periodic.spec().upcoming_after(std::time::SystemTime::now().into(), 5).len() == 5, "{periodic}");
    }
    let _by_hand = interval::job();
}
