//! Reads the list of subscribers: a CSV file with the columns name, email, city, plan.

use std::{fs::File, path::Path};

use asynq_runtime::prelude::BoxError;
use serde::Deserialize;

/// One row of the file.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Subscriber {
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) city: String,
    pub(crate) plan: String,
}

impl Subscriber {
    /// Returns the address by which two rows are one subscriber: lower case, otherwise as written.
    pub(crate) fn to(&self) -> String {
        self.email.to_lowercase()
    }
}

/// Reads every row of the file, in order.
///
/// # Errors
///
/// The file cannot be read, or a row is malformed; the text names the file and the line.
pub(crate) fn read(path: &Path) -> Result<Vec<Subscriber>, BoxError> {
    let file = File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    csv::Reader::from_reader(file)
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::address::{Address, Broken};

    /// The committed list has what the example promises to show.
    #[test]
    fn the_list_holds_every_kind_of_row() {
        let rows = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/subscribers.csv"))).unwrap();
        assert!((1_900..2_200).contains(&rows.len()), "{} rows", rows.len());

        let addresses: HashSet<String> = rows.iter().map(Subscriber::to).collect();
        assert!(rows.len() - addresses.len() >= 24, "duplicates: {}", rows.len() - addresses.len());

        let broken: Vec<Broken> = addresses.iter().filter_map(|to| Address::parse(to).err()).collect();
        assert!(broken.len() >= 24, "broken: {}", broken.len());
        let all = [
            Broken::NoAt,
            Broken::TwoAts,
            Broken::WhiteSpace,
            Broken::NothingBeforeAt,
            Broken::NoDot,
            Broken::EmptyLabel,
        ];
        for kind in all {
            assert!(broken.contains(&kind), "no row is broken by {kind:?}");
        }

        let grey = addresses.iter().filter(|to| to.ends_with("@greylist.example")).count();
        assert!(grey >= 24, "greylisted: {grey}");
        assert!(rows.iter().any(|row| row.city.contains(',')), "no quoted comma");
        assert!(rows.iter().filter(|row| !row.name.is_ascii()).count() > 1_000, "too few names beyond ASCII");
    }
}
