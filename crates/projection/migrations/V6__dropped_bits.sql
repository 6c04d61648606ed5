-- Few blocks are dropped, and every row that is read has to be compared with them. So a chain has a bit for
-- each number modulo 8192: where it is 0, no block of that number was ever dropped, and there is nothing to
-- look for. A bit may be 1 for no reason, which costs a look. Bits are set by whatever is written into
-- `dropped_blocks`, and never taken back.
SET LOCAL lock_timeout = '20s';

ALTER TABLE processing_state ADD COLUMN dropped_bits BYTEA NOT NULL
    DEFAULT decode(repeat('00', 1024), 'hex') CHECK (octet_length(dropped_bits) = 1024);

CREATE FUNCTION dropped_bit(block_number BIGINT) RETURNS BIGINT
LANGUAGE SQL IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT $1 & 8191
$$;

-- Bits with those of some numbers set.
CREATE FUNCTION with_dropped_bits(bits BYTEA, numbers BIGINT[]) RETURNS BYTEA
LANGUAGE plpgsql IMMUTABLE SET search_path = public AS $$
DECLARE
    bit BIGINT;
BEGIN
    FOR bit IN SELECT DISTINCT dropped_bit(number) FROM unnest(numbers) number LOOP
        bits := set_bit(bits, bit, 1);
    END LOOP;
    RETURN bits;
END
$$;

-- Once for all rows of a statement: a rewind may drop very many.
CREATE FUNCTION note_dropped_blocks() RETURNS TRIGGER LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    UPDATE processing_state s SET dropped_bits = with_dropped_bits(s.dropped_bits, n.numbers)
    FROM (SELECT chain_id, array_agg(block_number) AS numbers FROM noted GROUP BY chain_id) n
    WHERE s.chain_id = n.chain_id
      AND s.dropped_bits <> with_dropped_bits(s.dropped_bits, n.numbers);
    RETURN NULL;
END
$$;
CREATE TRIGGER dropped_blocks_inserted AFTER INSERT ON dropped_blocks
    REFERENCING NEW TABLE AS noted FOR EACH STATEMENT EXECUTE FUNCTION note_dropped_blocks();
CREATE TRIGGER dropped_blocks_updated AFTER UPDATE ON dropped_blocks
    REFERENCING NEW TABLE AS noted FOR EACH STATEMENT EXECUTE FUNCTION note_dropped_blocks();

-- A chain that is written down anew may have dropped blocks already.
CREATE FUNCTION collect_dropped_bits() RETURNS TRIGGER LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    NEW.dropped_bits := with_dropped_bits(NEW.dropped_bits, ARRAY(
        SELECT d.block_number FROM dropped_blocks d WHERE d.chain_id = NEW.chain_id));
    RETURN NEW;
END
$$;
CREATE TRIGGER processing_state_collects BEFORE INSERT ON processing_state
    FOR EACH ROW EXECUTE FUNCTION collect_dropped_bits();

-- Also where rows come by replication or out of a backup: a missing bit would show a dropped row as another.
ALTER TABLE dropped_blocks ENABLE ALWAYS TRIGGER dropped_blocks_inserted;
ALTER TABLE dropped_blocks ENABLE ALWAYS TRIGGER dropped_blocks_updated;
ALTER TABLE processing_state ENABLE ALWAYS TRIGGER processing_state_collects;

-- Those that are there by now.
UPDATE processing_state s SET dropped_bits = with_dropped_bits(s.dropped_bits, ARRAY(
    SELECT d.block_number FROM dropped_blocks d WHERE d.chain_id = s.chain_id));
