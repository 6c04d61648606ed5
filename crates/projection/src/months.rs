//! Months of the calendar, which partitions are cut at.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A month of the calendar, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Month {
    year: i64,
    /// From 1 to 12.
    month: i64,
}

const DAY_SECONDS: u64 = 86_400;
/// 9999-12-31T23:59:59Z: a chain that says more is taken to say this.
pub(crate) const TIME_MAX: u64 = 253_402_300_799;
const YEAR_MAX: i64 = 9_999;

impl Month {
    /// The month of a time in seconds since 1970.
    #[must_use]
    pub fn of(seconds: u64) -> Self {
        // Years are counted from March, so that the odd day is the last of a year.
        let days = (seconds.min(TIME_MAX) / DAY_SECONDS) as i64 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year, month }
    }

    /// The month this many months later.
    #[must_use]
    pub fn plus(self, months: i64) -> Self {
        let since = self.year * 12 + self.month - 1 + months;
        Self {
            year: since.div_euclid(12),
            month: since.rem_euclid(12) + 1,
        }
    }

    /// Its first day, as the database reads it.
    #[must_use]
    pub fn first_day(self) -> String {
        format!("{:04}-{:02}-01 00:00:00+00", self.year, self.month)
    }

    /// As a part of a table's name.
    #[must_use]
    pub fn suffix(self) -> String {
        format!("{:04}_{:02}", self.year, self.month)
    }

    /// The month that a part of a table's name stands for.
    #[must_use]
    pub fn from_suffix(text: &str) -> Option<Self> {
        let (year, month) = text.split_once('_')?;
        Self::from_parts(year, month)
    }

    fn from_parts(year: &str, month: &str) -> Option<Self> {
        let digits = |text: &str| text.bytes().all(|sign| sign.is_ascii_digit());
        if !digits(year) || !digits(month) || month.len() != 2 || year.len() < 4 {
            return None;
        }
        let (year, month) = (year.parse().ok()?, month.parse().ok()?);
        let known = (1_970..=YEAR_MAX).contains(&year) && (1..=12).contains(&month);
        known.then_some(Self { year, month })
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl FromStr for Month {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('-');
        let month = parts.and_then(|(year, month)| Self::from_parts(year, month));
        month.ok_or_else(|| Error::Invalid(format!("`{text}` is no month: write YYYY-MM")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_the_calendar() {
        for (seconds, month) in [
            (0, "1970-01"),
            (951_782_399, "2000-02"),
            (951_782_400, "2000-02"),
            (951_868_800, "2000-03"),
            (1_709_251_199, "2024-02"),
            (1_709_251_200, "2024-03"),
            (1_735_689_599, "2024-12"),
            (1_735_689_600, "2025-01"),
            (4_102_444_800, "2100-01"),
        ] {
            assert_eq!(Month::of(seconds).to_string(), month, "{seconds}");
        }
        // It never panics, whatever a chain says.
        assert_eq!(Month::of(u64::MAX).to_string(), "9999-12");
    }

    #[test]
    fn months_are_added_and_written() {
        let month: Month = "2024-11".parse().unwrap();
        assert_eq!(month.plus(3).to_string(), "2025-02");
        assert_eq!(month.plus(-11).to_string(), "2023-12");
        assert_eq!(month.first_day(), "2024-11-01 00:00:00+00");
        assert_eq!(Month::from_suffix(&month.suffix()), Some(month));
        for bad in [
            "2024",
            "2024-13",
            "2024-1",
            "24-01",
            "2024-00",
            "2024-01-01",
            "abcd-ef",
            "",
        ] {
            assert!(bad.parse::<Month>().is_err(), "{bad}");
        }
    }
}
