-- verified_at: when the chunk's bytes were last found right by reading them back, or were written
-- anew; null: not since created_at. scrub_until: a node has it in hand until then. quarantined_at:
-- its bytes were found wrong, short or missing then; the next upload that carries the same chunk
-- writes it anew.
alter table chunks
    add column verified_at    timestamptz,
    add column scrub_until    timestamptz,
    add column quarantined_at timestamptz;
create index chunks_oldest_verified on chunks ((coalesce(verified_at, created_at)))
    where quarantined_at is null;
create index chunks_quarantined on chunks (id) where quarantined_at is not null;
