-- What uploads under way will add to a space with a quota. Only ever read and added to under the
-- lock of the space's row, so that uploads side by side cannot pass the quota together. A row is
-- its upload's until expires_at; then it counts no more, and whoever reserves next removes it. id:
-- drawn by the upload.
create table reservations (
    id         bigint primary key,
    space_id   bigint not null references spaces on delete cascade,
    bytes      bigint not null check (bytes >= 0),
    expires_at timestamptz not null
);
create index reservations_space on reservations (space_id);
