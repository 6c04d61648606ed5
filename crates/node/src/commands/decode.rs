//! `chronolith decode`: calldata as JSON, without settings, archive or network.

use std::io::Read as _;

use alloy_primitives::Address;
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use chronolith_projection_adfs::{
    self as adfs, Call, Fault, HeaderForm, LanePolicy, Limits, Profile, Reason,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::output::print_json;
use crate::exit::Exit;
use crate::hex::parse_hex;

/// Most characters that are taken from standard input: far more than a transaction can have.
const STDIN_MAX: u64 = 32 << 20;

/// What to decode.
#[derive(Debug, Subcommand)]
pub(crate) enum DecodeCommand {
    /// Decode the calldata of an update of the oracle contract ADFS.
    ///
    /// Prints the feeds with their new values, and the rows of the table of newest indexes. Calldata that
    /// the contract would not take is refused with the byte where it is wrong. Where feeds and table
    /// disagree, that is printed and no error. With --proxy the calldata may be the whole input of a
    /// transaction, also of one that goes through a Safe or makes several calls; then a list is printed.
    #[command(after_help = ADFS_HELP)]
    Adfs(DecodeAdfs),
}

/// What `decode adfs --help` ends with.
const ADFS_HELP: &str = "\
Example: feed 1 gets a value at ring index 3.

  chronolith decode adfs --has-block-number true \\
    0x0100000199ed1ee3bd000000010002200301071234326764357301000000000300000000000000000000000000000000000000000000000000000000

A transaction to a Safe, from a file, since a command line does not hold much more than 60 KiB of it:

  chronolith decode adfs --has-block-number true --proxy 0xADF5aaa34D0A2FbAeE73353ab1622E47d0600249 - < input.hex";

/// Which calldata, and how it is read.
#[derive(Debug, Args)]
pub(crate) struct DecodeAdfs {
    /// Whether it begins with a block number, as in version 1 of the contract; else with two
    /// accumulators.
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set)]
    has_block_number: bool,
    /// What to do about newest indexes above 8191. Contracts that mask them cut them to 13 bits.
    #[arg(long, value_enum, default_value_t = Lanes::Reject)]
    lane_policy: Lanes,
    /// Most feeds.
    #[arg(long, value_name = "N", default_value_t = Limits::default().feeds_max)]
    max_feeds: u32,
    /// Most bytes of calldata.
    #[arg(long, value_name = "N", default_value_t = Limits::default().calldata_bytes_max)]
    max_bytes: usize,
    /// The contract's address: look for calls of it in the input of a transaction.
    #[arg(long, value_name = "ADDRESS")]
    proxy: Option<Address>,
    /// Where the transaction went [default: to a Safe or another contract that calls the proxy].
    #[arg(long, value_name = "ADDRESS", requires = "proxy")]
    to: Option<Address>,
    /// The calldata as 0x and digits, or - for standard input.
    calldata: String,
}

/// What to do about newest indexes above 8191.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lanes {
    /// Refuse the calldata.
    Reject,
    /// Cut them to 13 bits, and print that.
    Mask,
}

pub(crate) fn decode(what: &DecodeCommand) -> Result<Exit> {
    let DecodeCommand::Adfs(args) = what;
    let input = args.input()?;
    let profile = args.profile();
    let Some(proxy) = args.proxy else {
        let decoded = adfs::decode(&input, &profile);
        let decoded = decoded.map_err(|fault| refusal(&fault, &profile, 0))?;
        return print_json(&decoded.to_json());
    };
    let calls = adfs::find(args.to, &input, proxy).map_err(|none| {
        let act = match args.to {
            None => "if the transaction went to the proxy itself, say so with --to",
            Some(_) => "a call that another contract made is only in a call trace",
        };
        anyhow::anyhow!("{none}: {act}")
    })?;
    let all: Result<Vec<Value>> = calls.iter().map(|call| shown(call, &profile)).collect();
    print_json(&all?)
}

fn shown(call: &Call<'_>, profile: &Profile) -> Result<Value> {
    let decoded = adfs::decode(call.calldata, profile);
    let decoded = decoded.map_err(|fault| refusal(&fault, profile, call.offset))?;
    Ok(json!({
        "wrapper": call.wrappers.to_string(),
        "offset": call.offset,
        "decoded": decoded.to_json(),
    }))
}

/// What is wrong, where, and what may be done about it.
fn refusal(fault: &Fault, profile: &Profile, start: usize) -> anyhow::Error {
    let other = match profile.header {
        HeaderForm::BlockNumber => "false",
        HeaderForm::Accumulators => "true",
    };
    let act = match fault.reason() {
        Reason::FeedsLength => "--max-feeds allows more".to_owned(),
        Reason::CalldataSize => "--max-bytes allows more".to_owned(),
        Reason::RbIndex => "--lane-policy mask cuts it, as newer contracts do".to_owned(),
        Reason::Malformed => format!(
            "is it all there, is it of another version (--has-block-number {other}), or is it inside \
             of another call (--proxy)?"
        ),
    };
    let within = match start {
        0 => String::new(),
        start => format!(" of the call at byte {start} of the input"),
    };
    anyhow::anyhow!(
        "{fault}{within} (reason={}): {act}",
        fault.reason().as_str()
    )
}

impl DecodeAdfs {
    fn profile(&self) -> Profile {
        Profile {
            header: if self.has_block_number {
                HeaderForm::BlockNumber
            } else {
                HeaderForm::Accumulators
            },
            lanes: match self.lane_policy {
                Lanes::Reject => LanePolicy::Reject,
                Lanes::Mask => LanePolicy::Mask,
            },
            limits: Limits {
                feeds_max: self.max_feeds,
                calldata_bytes_max: self.max_bytes,
            },
        }
    }

    fn input(&self) -> Result<Bytes> {
        let mut text = String::new();
        let digits = if self.calldata == "-" {
            let input = std::io::stdin().lock();
            let mut input = input.take(STDIN_MAX + 1);
            input
                .read_to_string(&mut text)
                .context("read standard input")?;
            if text.len() as u64 > STDIN_MAX {
                bail!(
                    "standard input has more than {STDIN_MAX} characters: no transaction is as large"
                );
            }
            text.trim()
        } else {
            &self.calldata
        };
        parse_hex(digits).context("the calldata is not 0x and an even number of hexadecimal digits")
    }
}
