//! Rows of results: what we measured, what was wanted, what the baseline measured.

use serde_json::json;

/// How a figure is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Better {
    More,
    Less,
}

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    what: String,
    unit: &'static str,
    better: Better,
    ours: Option<f64>,
    target: Option<f64>,
    baseline: Option<(&'static str, Option<f64>)>,
    /// How many times better than the baseline it must be.
    factor: Option<f64>,
    note: String,
}

impl Row {
    /// A figure of ours; `None` was not measured.
    pub(crate) fn new(
        what: impl Into<String>,
        unit: &'static str,
        better: Better,
        ours: Option<f64>,
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            better,
            ours,
            target: None,
            baseline: None,
            factor: None,
            note: String::new(),
        }
    }

    /// What it must reach.
    pub(crate) fn target(mut self, target: f64) -> Self {
        self.target = Some(target);
        self
    }

    /// What the other one measured.
    pub(crate) fn baseline(mut self, name: &'static str, value: Option<f64>) -> Self {
        self.baseline = Some((name, value));
        self
    }

    /// How many times better than the other one it must be.
    pub(crate) fn factor(mut self, factor: f64) -> Self {
        self.factor = Some(factor);
        self
    }

    /// Something to know about it.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn ratio(&self) -> Option<f64> {
        let (ours, theirs) = (self.ours?, self.baseline.and_then(|(_, value)| value)?);
        Some(match self.better {
            Better::More => ours / theirs,
            Better::Less => theirs / ours,
        })
    }

    fn verdict(&self) -> &'static str {
        let Some(ours) = self.ours else {
            return "NOT MEASURED";
        };
        let reached = self.target.map(|target| match self.better {
            Better::More => ours >= target,
            Better::Less => ours <= target,
        });
        let ratio_reached = self
            .factor
            .map(|factor| self.ratio().map(|ratio| ratio >= factor));
        match (reached, ratio_reached) {
            (Some(false), _) | (_, Some(Some(false))) => "MISS",
            // The baseline was not measured, and nothing else was asked for.
            (None, Some(None)) => "NOT MEASURED",
            (Some(true), Some(None)) => "PASS (alone)",
            (Some(true), _) | (_, Some(Some(true))) => "PASS",
            (None, None) => "",
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours,
            "target": self.target,
            "baseline": self.baseline.map(|(name, _)| name),
            "baseline_value": self.baseline.and_then(|(_, value)| value),
            "ratio": self.ratio(),
            "ratio_target": self.factor,
            "verdict": self.verdict(),
            "note": self.note,
        })
    }

    fn cells(&self) -> [String; 7] {
        let sign = match self.better {
            Better::More => "≥",
            Better::Less => "≤",
        };
        let value = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
        let baseline = match self.baseline {
            None => String::new(),
            Some((name, found)) => format!("{} {name}", value(found)),
        };
        let times = |ratio: f64| format!("{ratio:.1} ×");
        let ratio = match (self.ratio(), self.factor) {
            (Some(ratio), Some(factor)) => format!("{} (≥ {factor})", times(ratio)),
            (Some(ratio), None) => times(ratio),
            (None, Some(factor)) => format!("– (≥ {factor})"),
            (None, None) => String::new(),
        };
        let target = self
            .target
            .map(|target| format!("{sign} {}", figure(target)));
        [
            self.what.clone(),
            format!("{} {}", value(self.ours), self.unit),
            target.unwrap_or_default(),
            baseline,
            ratio,
            self.verdict().to_owned(),
            self.note.clone(),
        ]
    }
}

/// A number with as many digits as matter.
pub(crate) fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left.is_multiple_of(3) && digit.is_ascii_digit() && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() {
        grouped
    } else {
        format!("{grouped}.{fraction}")
    }
}

/// Prints the rows as JSON lines.
pub(crate) fn print_json(rows: &[Row]) {
    rows.iter().for_each(|row| println!("{}", row.json()));
}

/// Prints the rows as a table.
pub(crate) fn print_table(rows: &[Row]) {
    let heads = [
        "what", "ours", "target", "baseline", "ratio", "verdict", "note",
    ];
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths);
        let padded = cells.map(|(cell, &width)| format!("{cell:<width$}"));
        println!("{}", padded.collect::<Vec<_>>().join("  ").trim_end());
    }
}
