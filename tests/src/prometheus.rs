//! Reads Prometheus's text format as strictly as `promtool check metrics`, and a bit more strictly.

use std::collections::{BTreeMap, BTreeSet};

/// The families of a text, by name.
pub type Families = BTreeMap<String, Family>;

/// One metric with all its series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Family {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Every line: the name with its suffix, the labels sorted by name, and the value.
    pub samples: Vec<Sample>,
}

/// One line of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The name with its suffix, such as `_bucket`.
    pub name: String,
    /// The labels, unescaped.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Family {
    /// The value of the line that has exactly these labels.
    pub fn value(&self, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.samples.iter().find(|sample| sample.labels == labels).map(|sample| sample.value)
    }
}

/// Gauges of asynq's own whose names end in `_total`.
const GAUGES_CALLED_TOTAL: [&str; 2] = ["asynq_tasks_enqueued_total", "asynq_queue_paused_total"];

/// Returns the families of a text, or its first fault: a family without or with two HELP or TYPE lines, lines of one family
/// that do not stand together, a series twice, a label that is not escaped, a counter that does not end in `_total`, a
/// histogram whose buckets do not add up.
pub fn check(text: &str) -> Result<Families, String> {
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut families = Families::new();
    let (mut helped, mut closed, mut current) = (BTreeSet::new(), BTreeSet::new(), String::new());
    let mut series = BTreeSet::new();
    for (n, line) in text.lines().enumerate() {
        let wrong = |fault: &str| Err(format!("line {}: {fault}: {line}", n + 1));
        if line.is_empty() {
            continue;
        }
        let of = if let Some(rest) = line.strip_prefix("# HELP ") {
            let Some((name, help)) = rest.split_once(' ') else { return wrong("no help") };
            if help.trim().is_empty() || !helped.insert(name.to_owned()) {
                return wrong("no help, or a second one");
            }
            name.to_owned()
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else { return wrong("no type") };
            if !["counter", "gauge", "histogram", "summary"].contains(&kind) {
                return wrong("an unknown type");
            }
            if (kind == "counter") != name.ends_with("_total") && !GAUGES_CALLED_TOTAL.contains(&name) {
                return wrong("counters, and nothing else, end in _total");
            }
            let fresh = Family { kind: kind.to_owned(), samples: Vec::new() };
            if families.insert(name.to_owned(), fresh).is_some() {
                return wrong("a second type");
            }
            name.to_owned()
        } else if line.starts_with('#') {
            return wrong("a comment that is neither HELP nor TYPE");
        } else {
            let Some(sample) = sample(line) else { return wrong("not a sample") };
            let Some(name) = family_of(&sample.name, &families) else {
                return wrong("a sample without a type before it");
            };
            let Some(family) = families.get_mut(&name) else { return wrong("no family") };
            if !series.insert((sample.name.clone(), sample.labels.clone())) {
                return wrong("a series twice");
            }
            if family.kind != "gauge" && (sample.value < 0.0 || sample.value.is_nan()) {
                return wrong("less than nothing was counted");
            }
            family.samples.push(sample);
            name
        };
        if of != current {
            closed.insert(std::mem::replace(&mut current, of.clone()));
            if closed.contains(&of) {
                return wrong("the lines of a family do not stand together");
            }
        }
    }
    for (name, family) in &families {
        if !helped.contains(name) {
            return Err(format!("{name} has no HELP"));
        }
        if family.kind == "histogram" {
            histogram(name, family)?;
        }
    }
    Ok(families)
}

/// The family that a name belongs to: the family of that name, or the histogram whose part has it.
fn family_of(name: &str, families: &Families) -> Option<String> {
    if families.get(name).is_some_and(|family| family.kind != "histogram") {
        return Some(name.to_owned());
    }
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
    families.get(base).is_some_and(|family| ["histogram", "summary"].contains(&&*family.kind)).then(|| base.to_owned())
}

fn histogram(name: &str, family: &Family) -> Result<(), String> {
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    let (mut counts, mut sums) = (BTreeMap::new(), BTreeSet::new());
    for Sample { name: line, labels, value } in &family.samples {
        let mut labels = labels.clone();
        if line.ends_with("_bucket") {
            let end = labels.remove("le").ok_or_else(|| format!("{name}: a bucket without le"))?;
            let end = if end == "+Inf" { f64::INFINITY } else { number(&end).ok_or(format!("{name}: le={end}"))? };
            series.entry(labels).or_default().push((end, *value));
        } else if line.ends_with("_count") {
            counts.insert(labels, *value);
        } else {
            sums.insert(labels);
        }
    }
    for (labels, buckets) in &series {
        if !buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) {
            return Err(format!("{name}{labels:?}: the buckets do not grow: {buckets:?}"));
        }
        let last = buckets.last().filter(|(end, _)| end.is_infinite()).map(|(_, n)| n);
        if last.is_none() || last != counts.get(labels) || !sums.contains(labels) {
            return Err(format!("{name}{labels:?}: no +Inf, no _sum, or another _count"));
        }
    }
    if series.len() != counts.len() || series.len() != sums.len() {
        Err(format!("{name}: a part is missing"))
    } else {
        Ok(())
    }
}

/// Parses a line such as `name{label="value",…} 1.5`.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|c: char| !is_name(c)).filter(|&end| end > 0)?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            if label.is_empty() || !label.chars().all(|c| is_name(c) && c != ':') || label.starts_with("__") {
                return None;
            }
            let (value, after) = quoted(after)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}')?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ')?;
    (!name.starts_with(|c: char| c.is_ascii_digit()))
        .then(|| Some(Sample { name: name.to_owned(), labels, value: number(value)? }))
        .flatten()
}

/// Returns the text up to the closing quote, unescaped, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                '\\' => '\\',
                '"' => '"',
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    (is_plain || ["+Inf", "-Inf", "NaN"].contains(&text)).then(|| text.parse().ok()).flatten()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}
