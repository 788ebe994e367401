-- What clients that keep a copy of a folder are told: what has changed since a moment of the
-- space's sequence. nodes.seq tells of changes; these two tell of what nodes.seq cannot.

-- When a node was put into its folder under its name. A folder that was moved is new where it is,
-- with all below it, although nothing below it has changed. 0: before this was kept.
alter table nodes add column link_seq bigint not null default 0;

-- A member that was deleted or moved away at seq; it had been there since link_seq. parent_id: the
-- folder it was in, which may be gone since.
create table removals (
    parent_id  bigint not null,
    seq        bigint not null,
    name       text collate "C" not null,
    kind       smallint not null,
    space_id   bigint not null references spaces on delete cascade,
    link_seq   bigint not null,
    removed_at timestamptz not null default now(),
    primary key (parent_id, seq, name)
);
create index removals_folders on removals (space_id, seq) where kind = 0;
create index removals_oldest on removals (removed_at);

-- Removals up to this moment may have been forgotten: who knows less has to begin anew.
alter table spaces add column sync_floor bigint not null default 0;
