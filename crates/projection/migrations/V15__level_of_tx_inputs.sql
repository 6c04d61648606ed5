-- As of `adfs_events`.
SET LOCAL lock_timeout = '20s';

ALTER TABLE tx_input_rows
    ADD COLUMN calldata_level TEXT CHECK (calldata_level IN ('claimed', 'roots'));

CREATE OR REPLACE VIEW tx_inputs AS
SELECT r.chain_id, r.tx_hash,
       CASE WHEN get_bit(s.dropped_bits, dropped_bit(r.block_number)) = 1 AND EXISTS (
                SELECT FROM dropped_blocks d
                WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash OFFSET 0)
                THEN 'dropped'::adfs_state
            WHEN r.block_number <= s.last_safe_block THEN 'confirmed'::adfs_state
            ELSE 'pending'::adfs_state
       END AS status,
       r.version, r.selector, r.decoded, r.calldata_level
FROM tx_input_rows r
JOIN processing_state s ON s.chain_id = r.chain_id;
