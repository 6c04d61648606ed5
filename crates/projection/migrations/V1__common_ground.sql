-- What every projection stands on: chains, how far they are final, blocks in doubt, leases, jobs.
--
-- A row's status is not stored with the row. A block at or below `processing_state.last_safe_block`
-- is confirmed unless it is in `dropped_blocks`, and one above it is pending unless it is there. So
-- confirming any number of rows changes one row of one table.

CREATE VIEW metadata.schema_version AS
    SELECT max(version) AS version FROM refinery_schema_history;

CREATE TYPE adfs_state AS ENUM ('pending', 'confirmed', 'dropped');

CREATE TABLE chains (
    chain_id BIGINT PRIMARY KEY,
    name     TEXT NOT NULL
);

-- Changes with every block: room is left in its page, so that no index has to follow.
CREATE TABLE processing_state (
    chain_id            BIGINT PRIMARY KEY,
    last_seen_block     BIGINT NOT NULL DEFAULT -1,
    last_safe_block     BIGINT NOT NULL DEFAULT -1,
    last_safe_hash      BYTEA CHECK (octet_length(last_safe_hash) = 32),
    last_backfill_block BIGINT NOT NULL DEFAULT -1
) WITH (fillfactor = 50);

-- Blocks with rows that are not final yet. Two of one height cannot both be on the chain.
CREATE TABLE pending_blocks (
    chain_id        BIGINT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    -- Rows by projection.
    counts          JSONB NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (chain_id, block_number),
    UNIQUE (chain_id, block_hash)
);

-- Blocks with rows that are on no chain any more. Their rows stay, and say so.
CREATE TABLE dropped_blocks (
    chain_id        BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_number    BIGINT NOT NULL,
    block_timestamp TIMESTAMPTZ NOT NULL,
    dropped_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (chain_id, block_hash)
);
CREATE INDEX dropped_blocks_number_idx ON dropped_blocks (chain_id, block_number);

-- Who may do what. Whoever writes shows in its transaction that the epoch is still its own.
CREATE TABLE leases (
    chain_id   BIGINT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('writer', 'finality', 'backfill')),
    epoch      BIGINT NOT NULL,
    holder     TEXT,
    taken_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    expires_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (chain_id, kind)
) WITH (fillfactor = 50);

-- Every change of hands, for ever.
CREATE TABLE lease_history (
    chain_id BIGINT NOT NULL,
    kind     TEXT NOT NULL,
    epoch    BIGINT NOT NULL,
    holder   TEXT,
    at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (chain_id, kind, epoch)
);

-- One projection of one chain. `next_block` is the first that nobody was asked to project yet.
CREATE TABLE projections (
    chain_id      BIGINT NOT NULL,
    projection    TEXT NOT NULL,
    start_block   BIGINT NOT NULL CHECK (start_block >= 0),
    next_block    BIGINT NOT NULL,
    settings      JSONB NOT NULL,
    paused_at     TIMESTAMPTZ,
    paused_reason TEXT,
    paused_detail TEXT,
    PRIMARY KEY (chain_id, projection)
) WITH (fillfactor = 50);

-- Blocks of which every row is there, both ends included.
CREATE TABLE projected_ranges (
    chain_id   BIGINT NOT NULL,
    projection TEXT NOT NULL,
    from_block BIGINT NOT NULL,
    to_block   BIGINT NOT NULL CHECK (to_block >= from_block),
    PRIMARY KEY (chain_id, projection, from_block)
);

-- A job's token changes whenever it changes hands, and never comes back.
CREATE SEQUENCE job_tokens;

-- Ranges on their way. One that is done is deleted and becomes a part of a projected range.
CREATE TABLE jobs (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id     BIGINT NOT NULL,
    projection   TEXT NOT NULL,
    from_block   BIGINT NOT NULL,
    to_block     BIGINT NOT NULL CHECK (to_block >= from_block),
    next_block   BIGINT NOT NULL,
    status       TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'failed', 'dead')),
    attempts     INTEGER NOT NULL DEFAULT 0,
    token        BIGINT NOT NULL DEFAULT nextval('job_tokens'),
    locked_by    TEXT,
    locked_until TIMESTAMPTZ,
    retry_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    error        TEXT,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (chain_id, projection, from_block)
) WITH (fillfactor = 50);

-- Through which block every row of a projection is there and confirmed: what whoever copies rows
-- elsewhere remembers. `last_safe_block` says what is final, and jobs may still be on their way below it.
CREATE VIEW complete_through AS
SELECT p.chain_id, p.projection, p.start_block,
       -- `least` passes over nulls, and there is nothing where no range begins at the start.
       CASE WHEN r.to_block IS NOT NULL THEN least(s.last_safe_block, r.to_block) END
           AS complete_through
FROM projections p
JOIN processing_state s ON s.chain_id = p.chain_id
LEFT JOIN LATERAL (
    SELECT to_block FROM projected_ranges r
    WHERE r.chain_id = p.chain_id AND r.projection = p.projection AND r.from_block <= p.start_block
    ORDER BY r.from_block DESC LIMIT 1
) r ON true;

-- What could not be projected, once each. It neither loops nor disappears.
CREATE TABLE quarantine (
    chain_id        BIGINT NOT NULL,
    projection      TEXT NOT NULL,
    block_number    BIGINT NOT NULL,
    block_hash      BYTEA NOT NULL CHECK (octet_length(block_hash) = 32),
    block_timestamp TIMESTAMPTZ NOT NULL,
    tx_hash         BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    log_index       INTEGER NOT NULL,
    reason          TEXT NOT NULL,
    detail          TEXT NOT NULL,
    PRIMARY KEY (chain_id, projection, tx_hash, log_index, block_hash)
);

-- What operators did.
CREATE TABLE operator_acts (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    chain_id BIGINT,
    act      TEXT NOT NULL,
    operator TEXT NOT NULL,
    detail   JSONB NOT NULL DEFAULT '{}'::jsonb
);
