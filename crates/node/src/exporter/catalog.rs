//! The help text of every metric that is exported: a line each in `catalog.txt`, as kind, name and help.

use metrics::{describe_counter, describe_gauge, describe_histogram};

use super::adfs;

const METRICS: &str = include_str!("catalog.txt");

/// Kind, name and help of a metric.
fn described(line: &'static str) -> Option<[&'static str; 3]> {
    let (kind, rest) = line.split_once(' ')?;
    let (name, help) = rest.split_once(' ')?;
    Some([kind, name, help])
}

/// Gives every metric its help text, and every ADFS name that of its metric.
pub(super) fn describe() {
    for [kind, name, help] in METRICS.lines().filter_map(described) {
        describe_one(kind, name, help.to_owned());
        for (theirs, help) in adfs::described(name) {
            describe_one(kind, theirs, help);
        }
    }
}

fn describe_one(kind: &str, name: &'static str, help: String) {
    match kind {
        "counter" => describe_counter!(name, help),
        "gauge" => describe_gauge!(name, help),
        _ => describe_histogram!(name, help),
    }
}

/// Whether there is such a metric.
#[cfg(test)]
pub(super) fn has(wanted: &str) -> bool {
    let mut all = METRICS.lines().filter_map(described);
    let has = |name| name == wanted || adfs::described(name).any(|(theirs, _)| theirs == wanted);
    all.any(|[_, name, _]| has(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_metric_and_none_is_there_twice() {
        let mut names: Vec<&str> = METRICS
            .lines()
            .map(|line| {
                let [kind, name, _] = described(line).expect(line);
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                name
            })
            .collect();
        assert!(names.len() > 90, "{names:?}");
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }
}
