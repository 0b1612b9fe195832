//! Contract `Broker` as a whole: after any calls in any order, the store shows the same as the model.

use crate::machine::Prove as _;

use super::Fixture;

#[tokio::test]
async fn a_random_sequence_of_calls_goes_as_the_model_says() {
    Fixture::prove().await;
}
