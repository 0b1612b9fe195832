//! A job may use types that are as private as itself.

mod jobs {
    use asynq_runtime::prelude::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Hidden;
    struct HiddenState;

    #[job]
    async fn private(hidden: Hidden, state: State<HiddenState>) -> JobResult<Hidden> {
        drop(state);
        Ok(hidden)
    }

    #[job(aggregates = private)]
    async fn together(all: Vec<private>) {
        drop(all);
    }

    pub(super) fn make() {
        drop(together::job(Vec::new()));
        drop(private::job(Hidden));
    }
}

/// Makes tasks of the jobs.
pub fn run() {
    jobs::make();
}
