-- Code belongs to the implementation, and is there.
SET LOCAL lock_timeout = '20s';

ALTER TABLE proxy_version_rows DROP COLUMN bytecode_hash;
