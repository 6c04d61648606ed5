//! The command line of projections.

use clap::{Args, Subcommand};

use super::{Act, Wanted};

/// What to do with the database.
#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Make the roles and tables of projections, or bring them up to date.
    ///
    /// Doing it again changes nothing. The user of the URL must be allowed to create roles; everything
    /// is owned by the role indexer_writer, and the role sync_reader may read it all. A role can log in
    /// once it has a password: set PG_WRITER_PASSWORD and PG_READER_PASSWORD, or grant the roles to
    /// users that you have, as in `GRANT sync_reader TO alice`.
    Init {
        /// Who may create roles, as a URL [default: PG_ADMIN_URL, PG_URL, or db.url of
        /// the settings file].
        #[arg(long, value_name = "URL")]
        admin_url: Option<String>,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show whether the database answers, its version, and how far each projection is.
    Status(Wanted),
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Show the ranges that are on their way, that failed, or that were given up.
    List(Wanted),
    /// Let a job that failed or was given up be tried anew, or all of them.
    Retry {
        /// Its number; all of them where none is given.
        id: Option<i64>,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what is known of a job, and what to do about it.
    Explain {
        /// Its number.
        id: i64,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare the cursors with what is projected: a range that nobody has is a defect, and made a job.
    Audit(Wanted),
}

/// What to do with locks.
#[derive(Debug, Subcommand)]
pub(crate) enum LocksCommand {
    /// Show who holds what, and since when.
    List(Wanted),
    /// Take a lock away from whoever holds it; what that one had under way is not written.
    Release {
        /// Which one: finality or writer.
        #[arg(long = "type", value_name = "TYPE")]
        kind: String,
        /// Which chain.
        #[command(flatten)]
        wanted: Wanted,
    },
}

/// What to do with partitions.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionsCommand {
    /// Make the partitions of a month, of every table.
    ///
    /// Those of this month and the next three are made by `chronolith run`, those of past months when
    /// they are needed.
    Create {
        /// The month, as YYYY-MM.
        #[arg(long, value_name = "YYYY-MM")]
        month: String,
        /// Which chain [default: all of them].
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Remove partitions older than six months that hold rows of dropped blocks only.
    ///
    /// A confirmed row is never removed.
    Prune {
        /// Only show what would be removed.
        #[arg(long)]
        dry_run: bool,
        /// Answer in JSON.
        #[arg(long)]
        json: bool,
    },
}

/// What to do with versions of ADFS contracts.
#[derive(Debug, Subcommand)]
pub(crate) enum VersionsCommand {
    /// Show which implementation was in force from which block on, and which were added here.
    List(Wanted),
    /// Say which version an implementation has, and let the chain go on that stood still for want of it.
    ///
    /// It is kept in the database, with who said so and when. The version must be among those of the
    /// settings file, and the file must not say otherwise.
    Add {
        /// The implementation's address.
        #[arg(long, value_name = "ADDRESS")]
        implementation: String,
        /// Its version.
        #[arg(long, value_name = "NUMBER")]
        version: u32,
        /// Which chain.
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Take back what was said of an implementation that never was in force.
    ///
    /// Rows are made of one that was: `projection reset` has them made anew.
    Remove {
        /// The implementation's address.
        #[arg(long, value_name = "ADDRESS")]
        implementation: String,
        /// Which chain.
        #[command(flatten)]
        wanted: Wanted,
    },
}

/// What to do with a projection.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectionCommand {
    /// Show how far each projection is, what is missing, and why one stands still.
    State(Wanted),
    /// Let a projection that stands still go on.
    Resume(ProjectionAct),
    /// Project a range again. Rows that are there stay as they are.
    Replay {
        /// First block.
        #[arg(long)]
        from: u64,
        /// Last block.
        #[arg(long)]
        to: u64,
        /// Which projection.
        #[command(flatten)]
        act: ProjectionAct,
    },
    /// Take back what the database calls final and the archive does not have.
    ///
    /// `chronolith rewind` does both; this is for where the database did not answer then. Run it where the
    /// archive is right. Rows of blocks that it does not have stay and are dropped, until the chain has
    /// their blocks again.
    Rewind(Act),
    /// Remove all rows of a projection and have them made anew, with other settings than before.
    ///
    /// The node must not run. Nothing of the archive is touched, so every row can be made again.
    Reset {
        /// Why, for the record.
        #[arg(long)]
        reason: String,
        /// Which projection.
        #[command(flatten)]
        act: ProjectionAct,
    },
}

/// Which projection of which chain.
#[derive(Debug, Args)]
pub(crate) struct ProjectionAct {
    /// Its name, fees or adfs [default: all of the chain].
    #[arg(long)]
    pub(crate) projection: Option<String>,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}
