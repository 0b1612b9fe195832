//! The checker of Prometheus's text format finds the faults that it should.

use asynq_tests::prometheus::check;

const GOOD: &str = "\
# HELP a_total Runs.
# TYPE a_total counter
a_total{queue=\"a\\\\b\\\"c\\nd\",state=\"x\"} 1
a_total{queue=\"b\"} 2.5e3

# HELP b A size.
# TYPE b gauge
b -1
# HELP c_seconds Times.
# TYPE c_seconds histogram
c_seconds_bucket{le=\"0.1\"} 1
c_seconds_bucket{le=\"2\"} 3
c_seconds_bucket{le=\"+Inf\"} 4
c_seconds_sum 5.5
c_seconds_count 4
";

#[test]
fn valid_metrics_are_read() {
    let families = check(GOOD).unwrap();
    assert_eq!(families["a_total"].value(&[("queue", "a\\b\"c\nd"), ("state", "x")]), Some(1.0));
    assert_eq!(families["a_total"].value(&[("queue", "b")]), Some(2500.0));
    assert_eq!(families["b"].value(&[]), Some(-1.0));
    assert_eq!((families["c_seconds"].kind.as_str(), families["c_seconds"].samples.len()), ("histogram", 5));
    assert_eq!(check("").unwrap().len(), 0);
}

#[test]
fn invalid_metrics_are_refused() {
    for (from, to) in [
        ("# HELP b A size.\n", ""),
        ("# TYPE b gauge\n", ""),
        ("# TYPE b gauge\n", "# TYPE b gauge\n# TYPE b gauge\n"),
        ("# TYPE b gauge\n", "# TYPE b thing\n"),
        ("# TYPE b gauge\n", "# TYPE b counter\n"),
        ("# HELP b A size.\n", "# HELP b A size.\n# HELP b A size.\n"),
        ("# HELP b A size.\n", "# note\n# HELP b A size.\n"),
        ("b -1\n", "b -1\nb -1\n"),
        ("b -1\n", "b -1\na_total 1\n"),
        ("b -1\n", "b{} x\n"),
        ("b -1\n", "b  1\n"),
        ("b -1\n", "b{q=a} 1\n"),
        ("b -1\n", "b{q=\"a\",q=\"b\"} 1\n"),
        ("b -1\n", "b{q=\"\\x\"} 1\n"),
        ("b -1\n", "b{q=\"a\nb\"} 1\n"),
        ("b -1\n", "b{q=\"a\"b\"} 1\n"),
        ("b -1\n", "b{__q=\"a\"} 1\n"),
        ("b -1\n", "1b 1\n"),
        ("b -1\n", "b 1 2 3\n"),
        ("{queue=\"b\"} 2.5e3", "{queue=\"b\"} -2"),
        ("c_seconds_bucket{le=\"2\"} 3", "c_seconds_bucket{le=\"2\"} 0"),
        ("c_seconds_bucket{le=\"2\"} 3", "c_seconds_bucket{le=\"0.05\"} 3"),
        ("c_seconds_bucket{le=\"+Inf\"} 4\n", ""),
        ("c_seconds_count 4", "c_seconds_count 5"),
        ("c_seconds_sum 5.5\n", ""),
        ("c_seconds_count 4\n", "c_seconds_count 4"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let bad = GOOD.replacen(from, to, 1);
        assert!(check(&bad).is_err(), "{from:?} -> {to:?}");
    }
}
