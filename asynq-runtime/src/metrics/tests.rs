use super::*;

#[test]
fn placeholder() {
    let _ = described();
}
