//! The help text of every metric that is exported: a line each in `catalog.txt`, as kind, name and help.

use metrics::{describe_counter, describe_gauge, describe_histogram};

use super::adfs;

const METRICS: &str = include_str!("catalog.txt");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

struct Described {
    kind: Kind,
    name: &'static str,
    help: &'static str,
}

fn described(line: &'static str) -> Option<Described> {
    let (kind, rest) = line.split_once(' ')?;
    let (name, help) = rest.split_once(' ')?;
    let kind = match kind {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "histogram" => Kind::Histogram,
        _ => return None,
    };
    Some(Described { kind, name, help })
}

/// Gives every metric its help text, and every ADFS name that of its metric.
pub(super) fn describe() {
    for Described { kind, name, help } in METRICS.lines().filter_map(described) {
        describe_one(kind, name, help.to_owned());
        for (theirs, help) in adfs::described(name) {
            describe_one(kind, theirs, help);
        }
    }
}

fn describe_one(kind: Kind, name: &'static str, help: String) {
    match kind {
        Kind::Counter => describe_counter!(name, help),
        Kind::Gauge => describe_gauge!(name, help),
        Kind::Histogram => describe_histogram!(name, help),
    }
}

/// Whether there is such a metric.
#[cfg(test)]
pub(super) fn has(name: &str) -> bool {
    let mut all = METRICS.lines().filter_map(described);
    all.any(|one| one.name == name || adfs::described(one.name).any(|(theirs, _)| theirs == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_metric_and_none_is_there_twice() {
        let mut names: Vec<&str> = METRICS
            .lines()
            .map(|line| described(line).expect(line).name)
            .collect();
        assert!(names.len() > 90, "{names:?}");
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }
}
