-- Write locks of WebDAV, each on the node that it was taken on, so that it stays when a folder
-- above is renamed. One that is past expires_at counts as absent; whoever locks next in the space,
-- or the janitor, removes it. deep: on everything below, too (Depth: infinity). owner: what the
-- client wrote about itself, XML. Only read and changed under the lock of the space's row.
create table locks (
    token        text collate "C" primary key,
    node_id      bigint not null references nodes on delete cascade,
    space_id     bigint not null references spaces on delete cascade,
    user_id      bigint not null references users on delete cascade,
    shared       boolean not null,
    deep         boolean not null,
    owner        text not null,
    timeout_secs bigint not null check (timeout_secs > 0),
    expires_at   timestamptz not null,
    created_at   timestamptz not null default now()
);
create index locks_node on locks (node_id);
create index locks_space on locks (space_id);
create index locks_user on locks (user_id);
create index locks_expires on locks (expires_at);

-- The latest expires_at of the locks in it. Whoever has the row in hand anyway then knows without
-- another statement that there is no lock to look for.
alter table spaces add column locked_until timestamptz;
