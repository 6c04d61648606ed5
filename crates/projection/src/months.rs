//! Calendar months: each month of a chain has its own partition.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike as _, Months, NaiveDate};

use crate::error::{Error, Result};

/// A month of the calendar, in UTC, as its first day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Month(NaiveDate);

/// 9999-12-31T23:59:59Z. A later time is stored as this one.
pub(crate) const TIME_MAX: u64 = 253_402_300_799;

impl Month {
    /// The month of a time in seconds since 1970.
    #[must_use]
    pub fn of(seconds: u64) -> Self {
        let time = DateTime::from_timestamp(seconds.min(TIME_MAX) as i64, 0);
        let date = time.expect("chrono knows the years to 9999").date_naive();
        Self(date.with_day(1).expect("a month has a first day"))
    }

    /// The month this many months later, or earlier where the number is negative.
    ///
    /// # Panics
    /// The result is more than 200,000 years away.
    #[must_use]
    pub fn plus(self, months: i32) -> Self {
        let distance = Months::new(months.unsigned_abs());
        let moved = if months < 0 {
            self.0.checked_sub_months(distance)
        } else {
            self.0.checked_add_months(distance)
        };
        Self(moved.expect("the result is within 200,000 years"))
    }

    /// Its first day, as the database reads it.
    #[must_use]
    pub fn first_day(self) -> String {
        format!("{self}-01 00:00:00+00")
    }

    /// As a part of a table's name.
    #[must_use]
    pub fn suffix(self) -> String {
        self.to_string().replace('-', "_")
    }

    /// The month of a table whose name ends with this text.
    #[must_use]
    pub fn from_suffix(text: &str) -> Option<Self> {
        let (year, month) = text.split_once('_')?;
        format!("{year}-{month}").parse().ok()
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0.year(), self.0.month())
    }
}

impl FromStr for Month {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let day = NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d");
        let month = day.ok().map(Self).filter(|month| {
            // chrono also reads spaces, signs and single digits.
            (1970..=9999).contains(&month.0.year()) && month.to_string() == text
        });
        month.ok_or_else(|| Error::Invalid(format!("`{text}` is not a month: write YYYY-MM")))
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
        let last: Month = "9999-12".parse().unwrap();
        assert_eq!(last.plus(1).first_day(), "10000-01-01 00:00:00+00");
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
            " 2024-01",
            "+2024-01",
            "1969-12",
            "10000-01",
        ] {
            assert!(bad.parse::<Month>().is_err(), "{bad}");
        }
    }
}
