-- A million confirmed values of 500 feeds: 50,000 blocks of twenty, over three months. Every hundredth
-- block was one of a fork before, whose rows are dropped, and fifty more blocks are not final yet.
INSERT INTO chains VALUES (1, 'one');
INSERT INTO processing_state (chain_id, last_seen_block, last_safe_block) VALUES (1, 50049, 49999);

CREATE TEMP TABLE made AS
    SELECT block, fork, place, (block * 20 + place) % 500 AS feed,
           sha256(int8send(block + fork * 1000000000)) AS block_hash,
           to_timestamp($NOW - 7511000 + block * 150 + fork * 5) AS time,
           sha256(int8send(block * 7 + fork * 1000000000)) AS tx_hash
    FROM generate_series(0::bigint, 50049) block, generate_series(0, 19) place,
         generate_series(0, 1) fork
    WHERE fork = 0 OR block % 100 = 99;
ANALYZE made;

INSERT INTO feed_update_rows (chain_id, block_number, block_hash, block_timestamp, tx_hash, log_index,
        position, version, stride, feed_id, rb_index, data)
    SELECT 1, block, block_hash, time, tx_hash, block % 7, place, 1, 0,
           decode(lpad(to_hex(feed), 32, '0'), 'hex'), (block / 25) % 8192, sha256(int8send(block * 20 + place))
    FROM made ORDER BY block, fork, place;
INSERT INTO ring_buffer_update_rows (chain_id, block_number, block_hash, block_timestamp, tx_hash, log_index,
        position, version, table_index, data)
    SELECT 1, block, block_hash, time, tx_hash, block % 7, place, 1,
           decode(lpad(to_hex(feed), 32, '0'), 'hex'), sha256(int8send(block * 20 + place))
    FROM made ORDER BY block, fork, place;
INSERT INTO dropped_blocks
    SELECT DISTINCT 1, block_hash, block, time FROM made WHERE fork = 1;
INSERT INTO feed_latest
    SELECT DISTINCT ON (feed_id) chain_id, feed_id, stride, block_number, block_timestamp, block_hash, tx_hash,
           log_index, rb_index, data, version, extra, position
    FROM feed_update_rows r
    WHERE block_number <= 49999 AND NOT EXISTS (SELECT FROM dropped_blocks d WHERE d.block_hash = r.block_hash)
    ORDER BY feed_id, block_number DESC, log_index DESC, position DESC;
