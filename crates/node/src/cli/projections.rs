//! The command line of projections.

use chronolith_serve::admin::operation::{
    ImplementationOf, LockOf, OfChain, OfProjection, OneJob, PartitionsOf,
    ProjectionOperation as Operation, PrunePartitions, Replay, SomeJob, VersionOf,
};
use clap::{Args, Subcommand};

use super::{Reasoned, Wanted};

/// An operation of the command line, and how to answer.
#[derive(Debug, Args)]
pub(crate) struct CliRequest<T: Args> {
    /// Which one.
    #[command(flatten)]
    operation: T,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

impl<T: Args> CliRequest<T> {
    pub(crate) fn into_operation(self, operation: fn(T) -> Operation) -> ProjectionRequest {
        ProjectionRequest {
            operation: operation(self.operation),
            json: self.json,
        }
    }
}

/// An operation on projections, and how to answer.
#[derive(Debug)]
pub(crate) struct ProjectionRequest {
    pub(crate) operation: Operation,
    /// Answer in JSON.
    pub(crate) json: bool,
}

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
    Status(CliRequest<OfChain>),
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Show the jobs that are running, waiting or failed.
    List(CliRequest<OfChain>),
    /// Retry a job that failed, or all of them.
    Retry(CliRequest<SomeJob>),
    /// Say what is known of a job, and what to do about it.
    Explain(CliRequest<OneJob>),
    /// Compare the cursors with what is projected: a range without an owner is a defect and becomes a job.
    Audit(CliRequest<OfChain>),
}

/// What to do with locks.
#[derive(Debug, Subcommand)]
pub(crate) enum LocksCommand {
    /// Show who holds what, and since when.
    List(CliRequest<OfChain>),
    /// Release a lock that another process holds; that process writes nothing more with it.
    Release(CliRequest<LockOf>),
}

/// What to do with partitions.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionsCommand {
    /// Make the partitions of a month, of every table.
    ///
    /// Those of this month and the next three are made by `chronolith run`, those of past months when
    /// they are needed.
    Create(CliRequest<PartitionsOf>),
    /// Remove partitions older than six months that hold rows of dropped blocks only.
    ///
    /// A confirmed row is never removed.
    Prune(CliRequest<PrunePartitions>),
}

/// What to do with versions of ADFS contracts.
#[derive(Debug, Subcommand)]
pub(crate) enum VersionsCommand {
    /// Show which implementation was in force from which block on, and which were added here.
    List(CliRequest<OfChain>),
    /// Say which version an implementation has, and resume the chain that is paused until it is known.
    ///
    /// It is kept in the database, with the operator and the time. The version must be among those of the
    /// settings file, and the file must not say otherwise.
    Add(CliRequest<VersionOf>),
    /// Remove the version of an implementation that never was in force.
    ///
    /// Rows are made of one that was: `projection reset` rebuilds them.
    Remove(CliRequest<ImplementationOf>),
}

/// What to do with a projection.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectionCommand {
    /// Show how far each projection is, what is missing, and why one is paused.
    State(CliRequest<OfChain>),
    /// Resume a paused projection.
    Resume(CliRequest<OfProjection>),
    /// Project a range again. Rows that are there stay as they are.
    Replay(CliRequest<Replay>),
    /// Take back what the database calls final and the archive does not have.
    ///
    /// `chronolith rewind` does both; this is for where the database did not answer then. Run it where the
    /// archive is right. Rows of blocks that it does not have stay and are dropped, until the chain has
    /// their blocks again.
    Rewind(Reasoned),
    /// Remove all rows of a projection and rebuild them, with other settings than before.
    ///
    /// The node must not run. Nothing of the archive is touched, so every row can be made again.
    Reset(ResetProjection),
}

/// Which projection to reset.
#[derive(Debug, Args)]
pub(crate) struct ResetProjection {
    /// Why, for the record.
    #[arg(long)]
    pub(crate) reason: String,
    /// Its name, fees or adfs [default: all of the chain].
    #[arg(long)]
    pub(crate) projection: Option<String>,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

impl From<JobsCommand> for ProjectionRequest {
    fn from(command: JobsCommand) -> Self {
        match command {
            JobsCommand::List(request) => request.into_operation(Operation::Jobs),
            JobsCommand::Retry(request) => request.into_operation(Operation::Retry),
            JobsCommand::Explain(request) => request.into_operation(Operation::Explain),
            JobsCommand::Audit(request) => request.into_operation(Operation::Audit),
        }
    }
}

impl From<LocksCommand> for ProjectionRequest {
    fn from(command: LocksCommand) -> Self {
        match command {
            LocksCommand::List(request) => request.into_operation(Operation::Locks),
            LocksCommand::Release(request) => request.into_operation(Operation::Release),
        }
    }
}

impl From<PartitionsCommand> for ProjectionRequest {
    fn from(command: PartitionsCommand) -> Self {
        use PartitionsCommand::{Create, Prune};
        match command {
            Create(request) => request.into_operation(Operation::CreatePartitions),
            Prune(request) => request.into_operation(Operation::PrunePartitions),
        }
    }
}

impl From<VersionsCommand> for ProjectionRequest {
    fn from(command: VersionsCommand) -> Self {
        match command {
            VersionsCommand::List(request) => request.into_operation(Operation::Versions),
            VersionsCommand::Add(request) => request.into_operation(Operation::AddVersion),
            VersionsCommand::Remove(request) => request.into_operation(Operation::RemoveVersion),
        }
    }
}
