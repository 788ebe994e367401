-- sha256: of the bytes, once a client has asked for it or has sent it. Null: nobody knows.
alter table contents add column sha256 bytea check (length(sha256) = 32);
