//! What the program says while it runs, to standard error, so that answers can be piped: lines for
//! people on a terminal, else JSON.

use std::io::IsTerminal as _;

use anyhow::{Result, anyhow, ensure};
use chronolith_follower::progress::LogWriter;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::cli::{Cli, Command};
use crate::traces::Traces;

/// The demo prints lines of its own.
const DEMO_FILTER: &str = "error";

/// Starts the log, and hands spans on where they are wanted. `--log-level` over `RUST_LOG` over `LOG_LEVEL` over `info`.
///
/// # Errors
/// A filter that cannot be understood; the message says where it stands.
pub(crate) fn start(
    cli: &Cli,
    variable: &dyn Fn(&str) -> Option<String>,
    traces: Option<&Traces>,
) -> Result<()> {
    let demo = is_demo(&cli.command);
    let filter = filter(cli, variable)?;
    tracing_subscriber::registry()
        .with(lines(demo).with_filter(filter))
        .with(traces.map(Traces::layer))
        .init();
    Ok(())
}

#[cfg(feature = "demo")]
fn is_demo(command: &Command) -> bool {
    matches!(command, Command::Demo { .. })
}

#[cfg(not(feature = "demo"))]
fn is_demo(_: &Command) -> bool {
    false
}

fn filter(cli: &Cli, variable: &dyn Fn(&str) -> Option<String>) -> Result<EnvFilter> {
    let flag = cli.log_level.clone().map(|text| ("--log-level", text));
    let of = |name: &'static str| variable(name).map(|text| (name, text));
    let default = if is_demo(&cli.command) {
        DEMO_FILTER
    } else {
        "info"
    };
    let chosen = flag.or_else(|| of("RUST_LOG")).or_else(|| of("LOG_LEVEL"));
    let (name, text) = chosen.unwrap_or(("default", default.to_owned()));
    // A word that is not a level would count as the name of a module and silence everything else.
    let is_level = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    ensure!(
        name == "RUST_LOG" || text.split(',').all(is_level),
        "{name}: `{text}` is no log level: use error, warn, info, debug, trace or off"
    );
    EnvFilter::builder().parse(ours(&text)).map_err(|error| {
        anyhow!(
            "{name}: `{text}` is no log filter ({error}): use a level, or module=level with commas"
        )
    })
}

/// A filter whose levels without a module, where they are above `info`, are those of this program alone: other
/// crates print whole hosts at them, which may have keys. A filter can name others, as in `hyper=debug`.
fn ours(text: &str) -> String {
    let own = |part: &str| match part.trim().parse::<LevelFilter>() {
        Ok(level) if level > LevelFilter::INFO => format!("info,chronolith={level}"),
        _ => part.to_owned(),
    };
    text.split(',').map(own).collect::<Vec<_>>().join(",")
}

fn lines<S>(demo: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| LogWriter)
        .with_target(false);
    if demo {
        lines.without_time().with_level(false).boxed()
    } else if std::io::stderr().is_terminal() {
        lines.boxed()
    } else {
        lines.json().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    /// The filter that comes of a flag, `RUST_LOG` and `LOG_LEVEL`, or what is said of them.
    #[track_caller]
    fn check(flag: Option<&str>, (rust, level): (&str, &str), expected: &str) {
        let args = ["chronolith", "state"].into_iter();
        let flag = flag.into_iter().flat_map(|flag| ["--log-level", flag]);
        let cli = Cli::try_parse_from(args.chain(flag)).unwrap();
        let variable = |name: &str| {
            let value = if name == "RUST_LOG" { rust } else { level };
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        let message = match filter(&cli, &variable) {
            Ok(filter) => filter.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(
            message.starts_with(expected),
            "{message} instead of {expected}"
        );
    }

    #[test]
    fn the_flag_goes_before_the_variables() {
        check(None, ("", ""), "info");
        check(None, ("", "debug"), "chronolith=debug,info");
        check(None, ("warn", "debug"), "warn");
        check(Some("trace"), ("warn", "debug"), "chronolith=trace,info");
        check(None, ("chronolith=debug", ""), "chronolith=debug");
        check(None, ("", "INFO"), "info");
    }

    /// The HTTP client of another crate logged the hosts of endpoints whole, at `debug`.
    #[test]
    fn other_crates_stay_at_info_unless_they_are_named() {
        check(None, ("debug", ""), "chronolith=debug,info");
        check(None, ("hyper=trace", ""), "hyper=trace");
        for (text, expected) in [
            ("debug", "info,chronolith=debug"),
            (" TRACE", "info,chronolith=trace"),
            ("debug,hyper=trace", "info,chronolith=debug,hyper=trace"),
            ("warn,hyper=debug", "warn,hyper=debug"),
            ("info", "info"),
            ("off", "off"),
        ] {
            assert_eq!(ours(text), expected);
        }
    }

    #[test]
    fn a_bad_filter_is_refused_by_name() {
        check(None, ("a=b=c", ""), "RUST_LOG: `a=b=c` is no log filter");
        check(None, ("a=loud", "info"), "RUST_LOG: `a=loud`");
        check(
            None,
            ("", "verbose"),
            "LOG_LEVEL: `verbose` is no log level",
        );
        check(
            Some("loud"),
            ("info", ""),
            "--log-level: `loud` is no log level",
        );
    }
}
