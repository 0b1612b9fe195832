//! Contract `Broker` as a whole: whatever is called in whatever order, the store shows what the model shows.

use crate::machine::Prove as _;

use super::Fixture;

#[tokio::test]
async fn a_random_sequence_of_calls_goes_as_the_model_says() {
    Fixture::prove().await;
}
