-- Blobs that a sweep has found without a row and removes: no upload may register them any more,
-- should it be under way still. Kept for a day.
create table swept (
    id         bytea not null check (length(id) = 32),
    generation bigint not null,
    at         timestamptz not null default now(),
    primary key (id, generation)
);
create index swept_at on swept (at);
