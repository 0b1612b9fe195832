//! The ids of entries without a key, which are made of their jobs and their arguments.

use asynq_cron::{EntryId, prelude::*};
use asynq_runtime::{PreparedTask, prelude::*};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A job whose arguments have another shape for each type.
#[derive(Serialize, Deserialize)]
struct Bill<T> {
    customer: T,
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Job for Bill<T> {
    const NAME: &'static str = "bill";
    type Output = JobResult;
    async fn run(self, _: &JobContext) -> JobResult {
        Ok(())
    }
}

fn id(task: PreparedTask) -> EntryId {
    let spec = CronSpec::parse("@daily").expect("a spec");
    Periodic::new(spec, task).expect("an entry").id().clone()
}

#[test]
fn an_id_does_not_depend_on_the_header_that_a_job_writes_before_its_arguments() {
    let (number, text) = (Bill { customer: 7_u8 }, Bill { customer: "7".to_owned() });
    // The text begins with its length.
    assert_eq!(id(number.into()), EntryId::of_arguments("bill", &[7]));
    assert_eq!(id(text.into()), EntryId::of_arguments("bill", &[1, b'7']));
    assert_eq!(id(Bill { customer: () }.into()), EntryId::of("bill", ""));
}

#[test]
fn bytes_of_another_programs_task_have_no_header() {
    let raw = |payload: &'static [u8]| id(RawTask::new("bill", payload).into());
    assert_ne!(raw(&[1, 7, 0, 0, 0, 9]), raw(&[1, 8, 0, 0, 0, 9]));
    assert_eq!(raw(&[1, 7, 0, 0, 0, 9]), EntryId::of_arguments("bill", &[1, 7, 0, 0, 0, 9]));
}
