-- The version of events before the first upgrade that is known. Once it is said it stays: rows are of it.
SET LOCAL lock_timeout = '20s';
ALTER TABLE contracts ADD COLUMN initial_version INTEGER CHECK (initial_version >= 0);
UPDATE contracts c SET initial_version = (SELECT jsonb_object_keys(p.settings -> 'versions')::integer)
FROM projections p
WHERE p.chain_id = c.chain_id AND p.projection = 'adfs'
  AND (SELECT count(*) FROM jsonb_object_keys(p.settings -> 'versions')) = 1;

-- What the code of an implementation hashes to; nothing where its chain cannot be asked for code.
CREATE TABLE implementation_codes (
    chain_id       BIGINT NOT NULL,
    implementation BYTEA NOT NULL CHECK (octet_length(implementation) = 20),
    code_hash      BYTEA CHECK (octet_length(code_hash) = 32),
    seen_at        TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (chain_id, implementation)
);

-- Code belongs to the implementation, not to one of its upgrades.
CREATE OR REPLACE VIEW proxy_versions AS
SELECT r.chain_id, r.version, r.implementation, r.topic_hash, c.code_hash AS bytecode_hash,
       r.block_number AS activated_block
FROM proxy_version_rows r
LEFT JOIN implementation_codes c ON c.chain_id = r.chain_id AND c.implementation = r.implementation
WHERE NOT EXISTS (SELECT FROM dropped_blocks d
                  WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash);
